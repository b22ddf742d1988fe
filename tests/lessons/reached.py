"""Which misconceptions the claims of an exercise can name (``keys_in``), found in their code. No answer need show one:
also a key that is put together while a claim runs stands somewhere as a text.
"""

import ast
import importlib
import inspect
import types
from functools import cache

OURS = ("course_utils.lessons.", "course_utils.checks.claims", "course_utils.checks.modes")
# The arguments and variables that are words for a card, and the functions whose texts name something of Python's.
WORDS = {
    "expected",
    "got",
    "what",
    "show",
    "called",
    "raised",
    "inputs",
    "name",
    "after",
    "found",
    "shown",
    "who",
    "of",
}
PYTHONS = {"getattr", "hasattr", "get", "startswith", "endswith", "split", "join", "partition", "pop", "replace"}


class Code:
    """The definitions of a module of the course, by their names, and the claims that it makes."""

    def __init__(self, name):
        module = importlib.import_module(name)
        tree = ast.parse(inspect.getsource(module))
        for parent in ast.walk(tree):
            for child in ast.iter_child_nodes(parent):
                child.parent = parent
        self.name, self.space, self.found = name, vars(module), {}
        self.claims = [(self, node) for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
        for node in tree.body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            names = [getattr(node, "name", "")] + [
                n.id for t in targets if t for n in ast.walk(t) if type(n) is ast.Name
            ]
            self.found |= {name: node for name in names if name not in self.found}


code = cache(Code)


def keys_in(module):
    """The texts in what a module's claims reach that may be keys; for each, where it stands."""
    waiting, methods, seen, attributes, found = list(code(module).claims), [], set(), set(), {}
    while waiting:
        here, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ast.ClassDef):  # of its methods, those that are called
            methods += [(here, part) for part in node.body if isinstance(part, ast.FunctionDef)]
            waiting += [(here, part) for part in (*node.bases, *node.body) if not isinstance(part, ast.FunctionDef)]
        else:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and may_be_key(part):
                    found.setdefault(part.value, f"{here.name}:{part.lineno}")
                attributes |= {part.attr} if isinstance(part, ast.Attribute) else set()
                waiting += defined(here, part)
        waiting += [row for row in methods if row[1].name in attributes or row[1].name.startswith("__")]
        methods = [row for row in methods if row not in waiting]
    return found


def defined(here, part):
    """The definition that a name or an attribute of a module refers to, where it is the course's own."""
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
        module = here.space.get(part.value.id)
        if isinstance(module, types.ModuleType) and module.__name__.startswith(OURS):
            yield from ((code(module.__name__), node) for node in [code(module.__name__).found.get(part.attr)] if node)
    elif isinstance(part, ast.Name) and part.id in here.found:
        yield here, here.found[part.id]
    elif isinstance(part, ast.Name):
        value = here.space.get(part.id)
        home = getattr(value, "__module__", None)
        if isinstance(home, str) and home.startswith(OURS) and hasattr(value, "__name__"):
            yield from ((code(home), node) for node in [code(home).found.get(value.__name__)] if node)


def may_be_key(text):
    """Whether nothing around a text says that it is a word for the card, a comparison's side, or a name of Python's."""
    child, parent = text, text.parent
    while isinstance(parent, ast.expr | ast.keyword | ast.comprehension):
        function = getattr(parent, "func", None)
        called = getattr(function, "id", getattr(function, "attr", ""))
        if (
            isinstance(parent, ast.Compare | ast.JoinedStr | ast.FormattedValue)
            or (isinstance(parent, ast.keyword) and parent.arg in WORDS)
            or child in (getattr(parent, "slice", None), getattr(parent, "test", None))
            or called in PYTHONS
            or target_of(child, parent) in WORDS
        ):
            return False
        child, parent = parent, parent.parent
    is_docstring = isinstance(parent, ast.Expr) and child is text
    is_test = child is getattr(parent, "test", None) or child in getattr(parent, "decorator_list", ())
    return not is_docstring and not is_test and target_of(child, parent) not in WORDS


def target_of(child, parent):
    """The name that a value is assigned to, alone or as one of several; empty where it is not assigned."""
    if isinstance(parent, ast.Tuple) and isinstance(parent.parent, ast.Assign):
        targets = getattr(parent.parent.targets[0], "elts", ())
        return getattr(targets[parent.elts.index(child)], "id", "") if len(targets) == len(parent.elts) else ""
    return getattr(parent.targets[0], "id", "") if isinstance(parent, ast.Assign) else ""
