"""Whether a written question is answered: what the learner's notebook says, as it was last saved (``is_answered``)."""

import contextlib
import json
from pathlib import Path

STUB = "*Your answer here.*"  # what `nbgrader_config.py` puts in the place of the model answer


def is_answered(notebook: str) -> bool | None:
    """Whether anything is written over the stub, in the notebook of this name in the current folder.

    Returns:
        None where there is no such notebook, or no written question in it.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for cell in json.loads(Path(f"{notebook}.ipynb").read_bytes())["cells"]:
            if cell["cell_type"] == "markdown" and cell["metadata"].get("nbgrader", {}).get("solution"):
                return "".join(cell["source"]).strip() not in ("", STUB)
    return None
