"""One tensor that takes in more with every call: ``bank = torch.cat([bank, batch])`` (``joined_findings``).

Its memory is new each time, so nothing of it grows old; it is its size that grows. What a variable of the model's own
``forward`` joins is not meant: that ends with the call, however long its sequences get.
"""

import ast
import itertools
from collections.abc import Iterator, Sequence

from course_utils.base.user_code import Site
from course_utils.holders.holder import Holder
from course_utils.holders.lines import parsed
from course_utils.leaks.births import Births
from course_utils.leaks.findings import Finding, Made
from course_utils.leaks.verdict import rate_of

_LEAST = 8
"""So many calls must have joined something."""


def joined_findings(births: Births, training: bool, warm_up: int) -> Iterator[Finding]:
    """What has been joined to itself in call after call, up to the last ones.

    Args:
        births: what was counted.
        training: whether calls that a backward pass followed are meant, or the others.
        warm_up: how many calls are not judged.
    """
    for site, sizes in births.joined.items():
        of_kind = [(call, size) for call, size in sizes.items() if births.trained[call] == training]
        points = of_kind[warm_up:]
        if len(points) < _LEAST or len(of_kind) < len(sizes) / 2:
            continue
        steps = [after[1] - before[1] for before, after in itertools.pairwise(points)]
        gaps = [after[0] - before[0] for before, after in itertools.pairwise(points)]
        if min(steps) <= 0 or births.call - points[-1][0] > 2 * max(gaps) + 1:
            continue
        holder = _holder(site, births.callers)
        if holder is not None:
            rate = rate_of(steps)
            series = tuple(sizes.items())
            yield Finding(holder, site, (Made(site, rate.nbytes),), rate, 0, (), training, scalar=False, series=series)


def _holder(site: Site, callers: set[str]) -> Holder | None:
    """The variable or attribute that is joined to itself on a line; None where the line does no such thing."""
    tree = parsed(site.file)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Assign) or not node.lineno <= site.line <= (node.end_lineno or node.lineno):
            continue
        target = node.targets[0]
        text = ast.unparse(target)
        if text not in _names(list(ast.walk(node.value))):
            continue
        if isinstance(target, ast.Attribute):
            return Holder(text, "variable", site.function.split(".")[0], site.file, scope="attribute")
        stays = site.function == "<module>" or site.function in callers or _is_declared(tree, target)
        if isinstance(target, (ast.Name, ast.Subscript)) and stays:
            scope = "global" if site.function == "<module>" else "local"
            return Holder(text, "variable", site.function, site.file, scope=scope)
    return None


def _names(nodes: Sequence[ast.AST]) -> set[str]:
    return {ast.unparse(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))}


def _is_declared(tree: ast.AST | None, target: ast.expr) -> bool:
    """Whether a name is declared ``global`` or ``nonlocal`` somewhere."""
    name = target.id if isinstance(target, ast.Name) else ""
    declared = (node for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal))) if tree else ()
    return any(name in node.names for node in declared)
