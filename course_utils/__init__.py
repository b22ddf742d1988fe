"""See what autograd keeps alive, check answers, explain mistakes.

The public names stand in ``__init__.pyi``, where editors and type checkers find them. Each is loaded when it is first
asked for: a command that only says how it is used needs no torch, and a notebook that draws nothing no figures.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from course_utils import progress, why

del progress, why  # The names are functions'. A room takes its name here once, when it is first loaded: that was now.

_HOMES = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+) as \2$", Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"), re.MULTILINE
    )
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("course_utils.base.versions")  # an old torch is refused before it is used
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
