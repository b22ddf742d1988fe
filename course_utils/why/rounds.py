"""What a graph has of an earlier round or pass: the parts that a backward pass comes to again (``parts_before``), and
the variables that carry them over (``carried``).
"""

from typing import Any, NamedTuple

from course_utils.base.user_code import Site
from course_utils.why.log import Log, Pass
from course_utils.why.look import VIEWS, spoken
from course_utils.why.scene import Scene


class Part(NamedTuple):
    """What was computed before a pass and used again after it.

    Attributes:
        node: the node that made it.
        site: its line.
        of_view: what is used again is a view of it.
    """

    node: Any
    site: Site
    of_view: bool


def failed_pass(log: Log) -> Pass | None:
    """The backward pass that ended in an error."""
    return next((one for one in reversed(log.passes) if one.failed), None)


def parts_before(scene: Scene, log: Log, first: Pass, a_round_before: bool) -> list[Part]:
    """What the rest of the graph has in common with a pass: of a round before, all that was recorded before the pass and
    leads to what it went through; else what it went through itself.
    """

    def is_old(node: Any) -> bool:
        number = node._sequence_nr()
        return number < first.at if a_round_before else (node.name(), number) in first.nodes

    found: dict[Any, Part] = {}
    for node in (node for node in scene.nodes if not hasattr(node, "variable") and not is_old(node)):
        for one, _ in node.next_functions:
            if one is None or hasattr(one, "variable") or not is_old(one):
                continue
            of_view = False
            while spoken(one.name()) in VIEWS and not hasattr(one.next_functions[0][0], "variable"):
                one, of_view = one.next_functions[0][0], True
            call = log.node(one)
            if call is not None and _leads_to(one, first):
                found.setdefault(one, Part(one, call.site, of_view))
    return list(found.values())


def _leads_to(node: Any, first: Pass) -> bool:
    """Whether a node is one that a pass went through, or leads to one."""
    waiting, seen = [node], set[Any]()
    while waiting:
        one = waiting.pop()
        if (one.name(), one._sequence_nr()) in first.nodes:
            return True
        seen.add(one)
        waiting += [before for before, _ in one.next_functions if before is not None and before not in seen]
    return False


def carried(scene: Scene, log: Log, parts: list[Part]) -> str:
    """The lines that cut the variables which carry such parts into the next round; "" where not all have names."""
    lines: dict[str, None] = {}
    for part in parts:
        names = {}
        for one in scene.named:
            node = one.tensor.grad_fn
            call = log.node(node) if node is not None and node.name() == part.node.name() else None
            if call is not None and call.site == part.site:
                names.setdefault(node, one.name)
        for name in names.values():
            whole = name.rpartition("[")[0] if name.endswith("]") else ""
            if whole and type(scene.value(whole)) is not tuple:
                return ""
            cut = f"tuple(part.detach() for part in {whole})" if whole else f"{name}.detach()"
            lines[f"{whole or name} = {cut}"] = None
        if not names:
            return ""
    return "\n".join(lines)
