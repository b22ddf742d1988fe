"""Why backward says that a graph was gone through before (``second``), what it has of an earlier round or pass
(``parts_before``), and which variables carry that over (``carried``).
"""

from typing import Any, NamedTuple

from course_utils.base.user_code import Site
from course_utils.source.statements import is_in_loop
from course_utils.why.log import Log, Pass
from course_utils.why.look import VIEWS, spoken
from course_utils.why.reason import LOOK, Reason, begin, place
from course_utils.why.scene import Scene

_PIECES = ("unbind", "split", "split_with_sizes")


class Part(NamedTuple):
    """What was computed before a pass and used again after it."""

    node: Any  # that made it
    site: Site
    is_piece: bool  # what is used again is one piece of it


def second(scene: Scene, log: Log | None) -> Reason:
    """Which part of the graph is used up, the line that made it, the backward that freed it, and what to write."""
    reason = Reason("second_backward")
    freed = [] if log is None else [
        (node, one) for node in scene.nodes if not hasattr(node, "variable") and (one := log.freed(node)) is not None
    ]  # fmt: skip
    if log is None or not freed:
        shown = f"`{scene.here.source}`, goes back through a graph that an earlier backward has used up."
        reason.say(f"{begin(place(scene.here))}, {shown}")
        reason.point("needed", scene.here)
        reason.unsure = f"Which line recorded what is used again, and which backward freed it. {LOOK}"
        return reason
    _, first = max(freed, key=lambda pair: pair[0]._sequence_nr())
    again = failed_pass(log)
    same = again is not None and again.stack == first.stack
    parts = parts_before(scene, log, first, same)
    sites = list(dict.fromkeys(part.site for part in parts)) or _lines_of(scene, log, first)
    reason.cause = _cause(log, first, parts, same)
    for site in sites[:4]:
        reason.point("made", site)
    reason.point("freed", first.stack[0] if first.stack else None)
    reason.point("needed", scene.here)
    _tell(reason, scene, first, parts, sites, same)
    if reason.cause == "kept_state":
        reason.code = carried(scene, log, parts)
    return reason


def _lines_of(scene: Scene, log: Log, first: Pass) -> list[Site]:
    """The lines that recorded what a pass went through, the earliest first."""
    known = [node for node in scene.nodes if (node.name(), node._sequence_nr()) in first.nodes]
    calls = [log.node(node) for node in sorted(known, key=lambda node: node._sequence_nr())]
    return list(dict.fromkeys(call.site for call in calls if call is not None))


def _cause(log: Log, first: Pass, parts: list[Part], same: bool) -> str:
    if not parts:
        return "made_outside_loop" if same and any(map(is_in_loop, first.stack)) else "backward_twice"
    if any(part.node._sequence_nr() in one.roots for part in parts for one in log.passes if not one.failed):
        return "summed_loss"
    if not same:
        return "shared_part"
    if any(log.ran_since(part.site, first.at) for part in parts):
        return "kept_state"
    return "shared_part" if any(part.is_piece for part in parts) else "made_outside_loop"


def _tell(reason: Reason, scene: Scene, first: Pass, parts: list[Part], sites: list[Site], same: bool) -> None:
    made = " and ".join(f"{place(site)}, `{site.source}`," for site in sites[:2]) or "a line that was not seen"
    loss = next((name for root in scene.roots[-1:] if (name := scene.name(root))), "")
    whose = f"The graph of `{loss}`" if loss else "The same graph"
    used = {
        "kept_state": f"What {made} computed in the round before goes into this one with its history.",
        "summed_loss": f"The loss of the round before is part of this one: {made} adds to it.",
        "made_outside_loop": f"What {made} recorded, it recorded once, and each round goes back through it.",
        "shared_part": f"What {made} recorded is part of both graphs.",
        "backward_twice": f"{whose}, recorded by {made} is gone back through twice.",
    }[reason.cause]  # fmt: skip
    if not parts and len(sites) > 1 and reason.cause == "made_outside_loop":
        all_of_it = f"All that {place(sites[0])} to {place(sites[-1])} recorded"
        used = f"{all_of_it} was recorded once, and each round goes back through it."
    freed = f"the backward in {place(first.stack[0])}" if first.stack else "a backward"
    freed += ", a round before" * (same and reason.cause != "backward_twice")
    reason.say(used, f"What the graph had saved was freed by {freed}; {place(scene.here)} comes to it again.")


def failed_pass(log: Log) -> Pass | None:
    """The backward pass that ended in an error."""
    return next((one for one in reversed(log.passes) if one.failed), None)


def parts_before(scene: Scene, log: Log, first: Pass, a_round_before: bool) -> list[Part]:
    """What the rest of the graph has in common with a pass: of a round before, all that was recorded before the pass
    and leads to what it went through; else what it went through itself.
    """

    def is_old(node: Any) -> bool:
        number = node._sequence_nr()
        return number < first.at if a_round_before else (node.name(), number) in first.nodes

    found: dict[Any, Part] = {}
    for node in (node for node in scene.nodes if not hasattr(node, "variable") and not is_old(node)):
        for one, _ in node.next_functions:
            if one is None or hasattr(one, "variable") or not is_old(one):
                continue
            is_piece = False
            while spoken(one.name()) in VIEWS and not hasattr(one.next_functions[0][0], "variable"):
                is_piece = is_piece or spoken(one.name()) in _PIECES
                one = one.next_functions[0][0]
            call = log.node(one)
            if call is not None and _leads_to(one, first):
                found.setdefault(one, Part(one, call.site, is_piece))
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
        names: dict[Any, str] = {}
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
