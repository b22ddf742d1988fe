"""Why a tensor was edited or a graph gone through before (``modified``, ``second``), or a number is not finite."""

import inspect
import re
from typing import Any

import torch

from course_utils.base.files import prose
from course_utils.base.torch_private import FunctionBase
from course_utils.base.user_code import Site
from course_utils.graph.recorded import Slot, leaves_behind, nodes_behind, saved_slots
from course_utils.source import is_in_loop, without_edit
from course_utils.why.log import Edited, Log, NotFinite, Pass, kind_of_bad, spoken
from course_utils.why.pages import LOOK, SILENCES, Reason
from course_utils.why.scene import Scene


def modified(scene: Scene) -> Reason:
    """Which tensor was edited, the line that made it, the line that edited it, and what to write instead."""
    reason, log, edits = Reason("modified_in_place"), scene.log, list[Edited]()
    now, expected = [int(number) for number in re.findall(r"version (\d+)", scene.message)][:2] or (0, 0)
    node, tensor = _stale(scene, now)
    if tensor is not None:
        named, made, saved = scene.names_on(tensor), log.made(tensor), log.node(node).site
        reason.tell(
            "{subject}[, made by `{op}` in {made:at},] was saved for backward by `{keeper}`[ in {saved:at}].",
            subject=f"`{named[0].name}`" if named else f"A tensor of shape {list(tensor.shape)}", made=made.site,
            op=spoken(made.name), keeper=spoken(node.name()), saved=saved if saved != made.site else None,
        )  # fmt: skip
        edits = [edit for edit in log.of(tensor, "edits") or () if edit.version > expected]
    if edits and tensor is not None:
        _edited(reason, scene, node, tensor, edits)
    else:
        reason.tell("It was edited since." if tensor is not None else "A tensor that it needs was edited since.")
        reason.unsure = f"Which line edited it. {LOOK}"
    called = _callers(log.broken.stack, edits[0].stack)[:1] if edits else []
    said = "{needed:at}[, on a call from {called:at},] is the backward that needed it as it was."
    reason.tell(said, needed=scene.back, called=called)
    reason.happened = [" ".join(reason.happened)]
    return reason


def _stale(scene: Scene, now: int) -> tuple[Any, torch.Tensor | None]:
    """The node that backward stopped at, the latest of those that saved a tensor whose version is another now."""
    for node in sorted(scene.nodes, key=lambda node: -node._sequence_nr()):
        for slot in saved_slots(node, tells_freed=False):
            value = None if slot.packed else slot.value
            if isinstance(value, torch.Tensor) and value._version == now and _is_edited(node, slot):
                return node, value
    return None, None


def _is_edited(node: Any, slot: Slot) -> bool:
    name = slot.name.partition("[")[0]
    try:
        getattr(node, name if isinstance(node, FunctionBase) else f"_saved_{name}")
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


def _edited(reason: Reason, scene: Scene, node: Any, tensor: torch.Tensor, edits: list[Edited]) -> None:
    """What a watch has seen edit it since."""
    edit, sites, last = edits[0], list(dict.fromkeys(edit.site for edit in edits)), scene.log.broken
    by, called = "" if edit.steps else edit.by, {at: 0 for it in edits for at in _callers(it.stack, last.stack)[:1]}
    said = "Its memory was edited in {edited}[, inside `{by}`][, on a call from {called:at}]."
    reason.tell(said, edited=sites, by=by, called=list(called))
    reason.cause = "inplace_operation"
    if edit.steps:
        earlier = [one for one in scene.log.passes if one is not last and one.stack == last.stack]
        carried = [one for one in earlier if node._sequence_nr() < one.at and _is_recorded_anew(scene.log, [node], one)]
        reason.cause = "kept_graph" if carried else "optimizer_step"
    elif "inplace" in str(inspect.signature(getattr(torch.nn.functional, by or "len", len))):
        reason.cause = "inplace_activation"
    elif by:
        reason.cure = f"`{by}` writes to what it is given: hand it a copy, `.clone()`."
    elif edit.in_part:
        reason.cause = "indexed_assignment"
    elif any(one.tensor.is_leaf and one.tensor.requires_grad for one in scene.names_on(tensor)):
        reason.cure = "Edit it after the backward that needs it, not between the forward pass and that."
    elif len(sites) == 1:
        reason.code = without_edit(edit.site)


def _callers(way: tuple[Site, ...], other: tuple[Site, ...]) -> list[Site]:
    """Where two ways lead into one function, the lines at which they parted."""
    same = len({(one.file, one.function) for one in (*way[:1], *other[:1])}) == 1
    parted = (pair for pair in zip(way[:0:-1], other[:0:-1], strict=False) if pair[0] != pair[1])
    return list(next(parted, ())) if same else []


def second(scene: Scene) -> Reason:
    """Which part of the graph is used up, the line that made it, the backward that freed it, and what to write."""
    reason, log = Reason("second_backward"), scene.log
    freed = sorted((node for node in scene.nodes if log.freed(node)), key=lambda node: node._sequence_nr())
    first = log.freed(freed[-1]) if freed else None
    if first is None:
        reason.tell("{needed}, goes back through a graph that an earlier backward has used up.", needed=scene.here)
        reason.unsure = f"Which line recorded what is used again, and which backward freed it. {LOOK}"
        return reason
    same = log.broken.stack == first.stack
    parts = _parts(scene, first, same)
    reason.cause = _cause(log, first, parts, same)
    # Of a way to what was recorded, the innermost line that was not on one since: others record elsewhere, too.
    later = {site for way in _ways_since(log, first) for site in way}
    ways = (log.node(node).stack for node in parts or filter(first.has, freed))
    made = list(dict.fromkeys(next((site for site in way if site not in later), way[0]) for way in ways if way))
    reason.tell(SILENCES["used_up"][reason.cause], made=made)
    reason.tell(
        "What the graph had saved was freed by the backward in {freed:at}[, {round}]; {needed:at} comes to it again.",
        freed=first.site, needed=scene.here, round="a round before" * (same and reason.cause != "backward_twice"),
    )  # fmt: skip
    reason.tell("[They were called in {called:at}.]", called=_callers(first.stack, log.broken.stack))
    behind = {*map(id, scene.leaves)}
    trained = [(id(one), name) for name, _, group in scene.groups for one in group["params"] if id(one) in behind]
    names = list(dict.fromkeys(name for _, name in trained)) if len(dict(trained)) == len(trained) else []
    reason.tell("[{optimizers} train different parts of it.]", optimizers=names * (len(names) > 1))
    if len(names) > 1 and reason.cause in ("shared_part", "made_outside_loop"):
        reason.cure = prose(SILENCES["used_up"]["different_parts"])
    return reason


def _cause(log: Log, first: Pass, parts: list[Any], same: bool) -> str:
    if not parts:
        return "made_outside_loop" if same and any(map(is_in_loop, first.stack)) else "backward_twice"
    if not same:
        return "shared_part"
    if any(part._sequence_nr() in one.roots for part in parts for one in log.passes if not one.failed):
        return "summed_loss"
    return "kept_state" if _is_recorded_anew(log, parts, first) else "made_outside_loop"


def _is_recorded_anew(log: Log, nodes: list[Any], since: Pass) -> bool:
    """Whether what recorded one of these nodes has recorded after a pass, too, as a loop does with its state."""
    return not _ways_since(log, since).isdisjoint(log.node(node).stack for node in nodes)


def _ways_since(log: Log, since: Pass) -> set[tuple[Site, ...]]:
    return {call.stack for some in log.threads for at, call in some.items() if at >= since.at and call.stack}


def _parts(scene: Scene, first: Pass, a_round_before: bool) -> list[Any]:
    """What the rest of the graph shares with a pass: what it went through; of a round before, also what leads there."""

    def is_old(node: Any) -> bool:
        return node is not None and (first.has(node) or (a_round_before and node._sequence_nr() < first.at))

    found: list[Any] = []
    for node in (one for new in scene.nodes if not is_old(new) for one, _ in new.next_functions if is_old(one)):
        while len(node.next_functions) == 1 and is_old(node.next_functions[0][0]) and not [*saved_slots(node)]:
            node = node.next_functions[0][0]  # what saved nothing, as views, is passed by
        if node not in found and scene.log.node(node).site.file and any(map(first.has, nodes_behind(node))):
            found.append(node)
    return found


def not_finite(scene: Scene, tensor: torch.Tensor) -> Reason:
    """Which operation made the first NaN or infinity that got into a tensor, or into its gradient."""
    log, name, own = scene.log, scene.name(tensor) or "the tensor", bool(kind_of_bad(tensor))
    shown = tensor if own or tensor.grad is None else tensor.grad
    whose = f"`{name}`" if own else f"the gradient of `{name}`"
    reason = Reason("", title=f"Why {whose} is not finite")
    reason.tell("{whose} is {kind}.", whose=whose, kind="NaN" if kind_of_bad(shown) == "nan" else "infinite")
    found = log.of(shown, "bad")
    if found is None or found.given == "weights":
        # A weight is so because a gradient was: of the passes that led to it, or to what the loss comes from.
        numbers = log.numbers_of(leaves_behind(tensor))
        found = next((one.bad for one in log.passes if one.bad is not None and numbers & one.leaves), found)
    if found is not None:
        may_be = found.backward or tensor.is_leaf  # else it came into the loss: it was not left out
        return _seen(reason, found, may_be and any(spoken(one.name()) == "where" for one in scene.nodes))
    reason.unsure = f"Which operation made the first; the graph does not show it. {LOOK}"
    data = [one.name for one in scene.named if not one.tensor.requires_grad and kind_of_bad(one.tensor) == "nan"]
    weights = scene.names(leaf for leaf in scene.leaves if leaf is not tensor and kind_of_bad(leaf))
    reason.cause = "in_the_weights" if weights else ""
    said = "[Weights behind it are so already: {weights}.][ Of your data, these hold NaN: {data}.]"
    reason.tell(said, weights=weights, data=data)
    return reason


def first_bad(log: Log) -> Reason | None:
    """What made the first loss that was not finite, or the first gradient that was NaN; None where none was seen."""
    found = log.first_bad
    if found is None or (found.backward and found.what == "inf"):  # a gradient scaler waits this one out
        return None
    return _seen(Reason("", title="Why a loss or a gradient is not finite"), found)


def nan_in_backward(scene: Scene) -> Reason:
    """Which operation anomaly mode found, and its line."""
    found, node = scene.log.first_bad, re.search(r"Function '(\w+)' returned nan", scene.message)
    reason, op = Reason("nan_in_backward"), spoken(node[1]) if node else "an operation"
    reason.tell("The gradient became NaN on its way back through `{op}`, in {needed:at}.", op=op, needed=scene.back)
    reason.unsure = "" if found else f"Which line: the warning above the error shows it. {LOOK}"
    if found is not None:
        _seen(reason, found)
    reason.cause, reason.cure = "edge_of_domain", _cure(op)
    return reason


def _seen(reason: Reason, found: NotFinite, left_out: bool = False) -> Reason:
    """With what a watch has seen make it; whether a ``where`` may have left out what is so."""
    first = found.before or found
    op = spoken(first.name)
    if first.given:
        reason.cause = f"in_the_{first.given}"
        reason.tell("The {given} were so before they were used[ in {used}].", given=first.given, used=first.site)
    else:
        reason.cause = "made_backward" if first.backward else "made_forward"
        reason.tell(
            "The first was made by {way}`{op}`[ in {made}].[ It {had} {numbers}.]",
            way="backward, on its way back through " * first.backward, op=op, made=first.site,
            had="had kept" if first.backward else "was given", numbers=", ".join(first.inputs),
        )  # fmt: skip
        reason.cure = _cure("overflow" if op == "pow" and first.what == "inf" and not first.backward else op)
        if left_out and not (first.backward and first.what == "inf"):  # times zero, it would be NaN at once
            reason.cure = f"{reason.cure} {_cure('where')}".strip()
    if found is not first:
        became = found.site if found.site != first.site else None
        reason.tell("The infinity became a NaN[ in {became_NaN}].", became_NaN=became)
    return reason


def _cure(op: str) -> str:
    """What helps where an operation makes a NaN or an infinity; "" where nothing is known of it."""
    return prose(SILENCES["operations"].get(op.replace("_", ""), ""))
