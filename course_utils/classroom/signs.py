"""What a student's code says that an honest answer has no need to say (``signs``): a look at the text, nothing is run.

Only a first sieve: names can be put together while a program runs. What is asked of the interpreter then is seen by
``audit``, and what was replaced by ``integrity``. Imports source.
"""

from __future__ import annotations

import ast

from course_utils.classroom.source import parse

# Ways from an object to the code, the frames or the memory behind it.
_ATTRIBUTES = {
    "the frames of its callers": (
        *("_getframe", "currentframe", "_current_frames", "f_back", "f_locals", "f_globals", "f_builtins", "f_code"),
        *("tb_frame", "gi_frame", "cr_frame", "ag_frame", "walk_stack", "walk_tb"),
    ),
    "the inside of functions": ("__globals__", "__closure__", "cell_contents", "__builtins__", "co_consts"),
    "all classes of the interpreter": ("__subclasses__",),
    "all objects of the interpreter": ("get_objects", "get_referrers", "get_referents"),
    "the interpreter's own hooks": ("addaudithook", "settrace", "setprofile"),
    "the table of loaded modules": ("sys.modules",),
    "the exercises' own checks": ("_rules", "exercises", "truth", "EXERCISES"),
    "the shell's input transformers": (
        *("input_transformers_post", "input_transformer_manager", "ast_transformers", "cleanup_transforms"),
    ),
}
_NAMES = {name: what for what, names in _ATTRIBUTES.items() for name in names}
_MODULES = {
    "ctypes": "the interpreter's memory",
    "_ctypes": "the interpreter's memory",
    "cffi": "the interpreter's memory",
}
# The parts of the package that judge. Whatever imports one of them is one; everything else may be imported.
JUDGING = ("capture", "classroom", "common_claims", "exercise", "judge", "lessons", "score", "state", "trial")
_TEXTS = {
    "/proc/": "the files of the kernel about processes",
    "__globals__": "the inside of functions",
    "__closure__": "the inside of functions",
    "__subclasses__": "all classes of the interpreter",
    "tb_frame": "the frames of its callers",
    "f_locals": "the frames of its callers",
    "_getframe": "the frames of its callers",
    "course_utils.lessons": "the exercises' own checks",
}
# The garbage collector's lists are refused while it runs, and honest code looks for tensors there: reported then.
_LEFT_TO_AUDIT = frozenset({"get_objects", "get_referrers", "get_referents", "settrace", "setprofile"})


def signs(source: str) -> list[str]:
    """What the code reaches for, one phrase each: "the frames of its callers (`f_back` in line 3)"."""
    tree = parse(source)
    if tree is None:
        return []
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        for what, word in _of(node):
            found[f"{what} (`{word}` in line {getattr(node, 'lineno', 1)})"] = None
    return list(found)


def _of(node: ast.AST) -> list[tuple[str, str]]:
    if isinstance(node, ast.Attribute):
        word = node.attr
        if word in _LEFT_TO_AUDIT:
            return []
        if word == "modules" and isinstance(node.value, ast.Name) and node.value.id == "sys":
            return [("the table of loaded modules", "sys.modules")]
        own = word in ("exercises", "truth")
        if own and not (isinstance(node.value, (ast.Name, ast.Subscript)) and _is_lesson(node.value)):
            return []
        return [(_NAMES[word], word)] if word in _NAMES else []
    if isinstance(node, ast.Name):
        return [(_MODULES[node.id], node.id)] if node.id in _MODULES else []
    if isinstance(node, ast.Import):
        return [found for alias in node.names for found in _module(alias.name)]
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        names = [f"{module}.{alias.name}" for alias in node.names]
        found = _module(module) or [pair for name in names for pair in _module(name)]
        return found + [
            (_NAMES[a.name], a.name) for a in node.names if a.name in _NAMES and a.name not in _LEFT_TO_AUDIT
        ]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [(what, text) for text, what in _TEXTS.items() if text in node.value]
    return []


def _is_lesson(node: ast.AST) -> bool:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return isinstance(node, ast.Name) and "lesson" in node.id.lower()


def _module(name: str) -> list[tuple[str, str]]:
    if name.partition(".")[0] in _MODULES:
        return [(_MODULES[name.partition(".")[0]], name)]
    parts = name.split(".")
    if parts[0] == "course_utils" and len(parts) > 1 and parts[1] in JUDGING:
        return [("the parts of the course that judge", name)]
    return []
