"""One folder for each lesson; in it, ``<exercise>.py`` and ``<exercise>.toml`` for each exercise."""

import importlib
from pathlib import Path
from typing import Any

from course_utils.catalogue import text_files


def exercises(file: str) -> tuple[Any, ...]:
    """A lesson's exercises, in its order: what its ``EXERCISES`` is.

    Args:
        file: the lesson's ``__file__``. Each text file beside it has a module of its name, and that an exercise of its
            name.
    """
    folder = Path(file).parent
    names = [path.stem for path in text_files(folder)]
    modules = [importlib.import_module(f"{__name__}.{folder.name}.{name}") for name in names]
    return tuple(getattr(module, name) for module, name in zip(modules, names, strict=True))
