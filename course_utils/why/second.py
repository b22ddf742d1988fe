"""Why backward says that a graph was gone through before (``second``)."""

from course_utils.base.user_code import Site
from course_utils.source.statements import is_in_loop
from course_utils.why.log import Log, Pass
from course_utils.why.reason import LOOK, Draft, begin, place
from course_utils.why.rounds import Part, carried, failed_pass, parts_before
from course_utils.why.scene import Scene


def second(scene: Scene, log: Log | None) -> Draft:
    """Which part of the graph is used up, the line that made it, the backward that freed it, and what to write."""
    draft = Draft("second_backward")
    freed = [] if log is None else [
        (node, one) for node in scene.nodes if not hasattr(node, "variable") and (one := log.freed(node)) is not None
    ]  # fmt: skip
    if log is None or not freed:
        shown = f"`{scene.here.source}`, goes back through a graph that an earlier backward has used up."
        draft.say(f"{begin(place(scene.here))}, {shown}")
        draft.point("needed", scene.here)
        draft.unsure = f"Which line recorded what is used again, and which backward freed it. {LOOK}"
        return draft
    _, first = max(freed, key=lambda pair: pair[0]._sequence_nr())
    again = failed_pass(log)
    same = again is not None and again.stack == first.stack
    parts = parts_before(scene, log, first, same)
    sites = list(dict.fromkeys(part.site for part in parts)) or _lines_of(scene, log, first)
    draft.cause = _cause(log, first, parts, same)
    for site in sites[:4]:
        draft.point("made", site)
    draft.point("freed", first.stack[0] if first.stack else None)
    draft.point("needed", scene.here)
    _tell(draft, scene, first, parts, sites, same)
    if draft.cause == "kept_state":
        draft.code = carried(scene, log, parts)
    return draft


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
    return "shared_part" if any(part.of_view for part in parts) else "made_outside_loop"


def _tell(draft: Draft, scene: Scene, first: Pass, parts: list[Part], sites: list[Site], same: bool) -> None:
    made = " and ".join(f"{place(site)}, `{site.source}`," for site in sites[:2]) or "a line that was not seen"
    loss = next((name for root in scene.roots[-1:] if (name := scene.name(root))), "")
    whose = f"The graph of `{loss}`" if loss else "The same graph"
    used = {
        "kept_state": f"What {made} computed in the round before goes into this one with its history.",
        "summed_loss": f"The loss of the round before is part of this one: {made} adds to it.",
        "made_outside_loop": f"What {made} recorded, it recorded once, and each round goes back through it.",
        "shared_part": f"What {made} recorded is part of both graphs.",
        "backward_twice": f"{whose}, recorded by {made} is gone back through twice.",
    }[draft.cause]  # fmt: skip
    if not parts and len(sites) > 1 and draft.cause == "made_outside_loop":
        used = f"All that was recorded from {place(sites[0])} to {place(sites[-1])} was recorded once, and each round goes back through it."
    freed = f"the backward in {place(first.stack[0])}" if first.stack else "a backward"
    freed += ", a round before" * (same and draft.cause != "backward_twice")
    draft.say(used, f"What the graph had saved was freed by {freed}; {place(scene.here)} comes to it again.")
