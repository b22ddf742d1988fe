"""Why backward says that a tensor was modified in place (``modified``)."""

import ast
import inspect
import re
from typing import Any, NamedTuple

import torch

from course_utils.base.torch_private import FunctionBase
from course_utils.base.user_code import Site
from course_utils.graph.recorded import Slot, saved_slots
from course_utils.source.statements import is_bound_in, statement_at
from course_utils.why.log import Edited, Log
from course_utils.why.look import VIEWS, spoken
from course_utils.why.reason import LOOK, Reason, begin, listed, place, where
from course_utils.why.scene import Scene
from course_utils.why.second import carried, failed_pass, parts_before


class _Message(NamedTuple):
    """What PyTorch's message says: the operation that made the tensor, its shape, and how often it was edited."""

    maker: str
    shape: tuple[int, ...]
    now: int
    expected: int


class _Stale(NamedTuple):
    """The node that saved the edited tensor, and the tensor as it is now."""

    node: Any
    tensor: torch.Tensor


def modified(scene: Scene, log: Log | None) -> Reason:
    """Which tensor was edited, the line that made it, the line that edited it, and what to write instead."""
    reason, message = Reason("modified_in_place"), _read(scene.message)
    found = _stale(scene, message)
    names = [one.name for one in scene.names_on(found.tensor)] if found is not None else []
    edits = [edit for edit in log.edits(found.tensor) if edit.version > message.expected] if log and found else []
    _tell(reason, message, found, names, log)
    if log is not None and edits:
        _seen(reason, scene, log, found, edits)
    else:
        _left(reason, scene, found, names, message.now - message.expected)
    reason.say(f"{begin(place(scene.back))} is the backward that needed it as it was.")
    reason.happened = [" ".join(reason.happened)]
    reason.point("needed", scene.back)
    return reason


def _read(text: str) -> _Message:
    maker = re.search(r"is output \d+ of (?:\w+::)*(\w+)", text)
    shape = re.search(r"\[torch\.\w*(?:\.\w+)*Tensor \[([\d, ]*)\]\]", text)
    version = re.search(r"is at version (\d+); expected version (\d+)", text)
    sizes = tuple(int(size) for size in shape[1].split(",") if size.strip()) if shape else ()
    now, expected = (int(version[1]), int(version[2])) if version else (0, 0)
    return _Message(maker[1] if maker else "", sizes, now, expected)


def _stale(scene: Scene, message: _Message) -> _Stale | None:
    """The node that backward stopped at: the latest one of those whose saved tensor was edited since."""
    found: _Stale | None = None
    for node in scene.nodes:
        if hasattr(node, "variable") or (found is not None and node._sequence_nr() < found.node._sequence_nr()):
            continue
        for slot in saved_slots(node, tells_freed=False):
            tensor = slot.value
            if slot.packed or not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != message.shape:
                continue
            if _is_edited(node, slot):
                found = _Stale(node, tensor)
    return found


def _is_edited(node: Any, slot: Slot) -> bool:
    name = slot.name.partition("[")[0]
    try:
        getattr(node, name if isinstance(node, FunctionBase) else f"_saved_{name}")
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


def _maker(message: _Message, found: _Stale | None, log: Log | None) -> tuple[str, Site | None]:
    """The operation that made the tensor, as far as it is known, and its line, where a watch has seen it."""
    source = found.tensor.grad_fn if found is not None else None
    known = (log.made(found.tensor) or (log.node(source) if source is not None else None)) if log and found else None
    if known is not None and known.site.file:
        return spoken(known.name), known.site
    edited = found is not None and source is not None and source._sequence_nr() > found.node._sequence_nr()
    made = "" if edited or not message.maker else spoken(message.maker)
    return "" if made in VIEWS else made, None


def _tell(reason: Reason, message: _Message, found: _Stale | None, names: list[str], log: Log | None) -> None:
    subject = f"`{names[0]}`" if names else f"A tensor of shape {list(message.shape)}"
    made, maker = _maker(message, found, log)
    by = f", made by `{made}`" * bool(made) + (f" in {place(maker)}" if maker is not None else "")
    reason.point("made", maker)
    keeper = ""
    if found is not None:
        known = log.node(found.node) if log is not None else None
        keeper = f" by `{spoken(found.node.name())}`"
        if known is not None and known.site != maker:
            keeper += f" in {place(known.site)}"
            reason.point("saved", known.site)
    reason.say(f"{subject}{by}{',' * bool(by)} was saved for backward{keeper}.")


def _seen(reason: Reason, scene: Scene, log: Log, found: _Stale | None, edits: list[Edited]) -> None:
    """What a watch has seen edit it since."""
    edit, sites = edits[0], list(dict.fromkeys(edit.site for edit in edits))
    statement = statement_at(edit.site)
    by = f", inside `{edit.by}`" if edit.by and not edit.steps else ""
    more = f", and {'again ' * (len(sites) == 1)}in {place(sites[1])}" if len(sites) > 1 else ""
    reason.say(f"Its memory was edited{where(edit.site)}{by}{more}.")
    for site in sites[:3]:
        reason.point("edited", site)
    last = failed_pass(log)
    if edit.steps and found is not None and last is not None:
        earlier = [one for one in log.passes if one is not last and one.stack == last.stack]
        rounds = [one for one in earlier if found.node._sequence_nr() < one.at]
        reason.cause = "kept_graph" if rounds else "optimizer_step"
        if rounds:
            parts = parts_before(scene, log, rounds[-1], True)
            for part in parts[:2]:
                reason.point("carried", part.site)
            reason.code = carried(scene, log, parts)
    elif edit.by:
        reason.cause = "inplace_activation" if _can_be_inplace(edit.by) else "inplace_operation"
        if reason.cause == "inplace_operation":
            reason.cure = f"`{edit.by}` writes to what it is given. Hand it a copy in {place(edit.site)}: `.clone()`."
    elif edit.view or _stores_into_part(statement):
        reason.cause = "indexed_assignment"
    else:
        reason.cause = "inplace_operation"
        same = scene.names_on(found.tensor) if found is not None else []
        if not edit.recording and any(one.tensor.is_leaf and one.tensor.requires_grad for one in same):
            reason.cure = f"Edit it after the backward in {place(scene.back)}, not between the forward pass and it."
        elif len(sites) == 1:
            reason.code = _without_edit(statement, edit)


def _stores_into_part(statement: ast.stmt | None) -> bool:
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return any(isinstance(target, ast.Subscript) for target in targets)


def _can_be_inplace(function: str) -> bool:
    """Whether a function of PyTorch's takes ``inplace=True``."""
    known = getattr(torch.nn.functional, function, None)
    return known is not None and "inplace" in str(inspect.signature(known))


def _without_edit(statement: ast.stmt | None, edit: Edited) -> str:
    """``h = h + x`` for ``h += x``, where ``h`` is a variable that its function has bound, and no view."""
    target = getattr(statement, "target", None)
    if not isinstance(statement, ast.AugAssign) or not isinstance(target, ast.Name):
        return ""
    if not is_bound_in(target.id, edit.site):
        return ""
    return ast.unparse(
        ast.Assign([target], ast.BinOp(ast.Name(target.id, ast.Load()), statement.op, statement.value), lineno=1)
    )


def _left(reason: Reason, scene: Scene, found: _Stale | None, names: list[str], times: int) -> None:
    """What the graph and the variables still show of the edit."""
    reason.say(f"Its memory was edited since, {'once' if times == 1 else f'{times} times'}." if times > 0 else "")
    reason.unsure = f"Which line edited it. {LOOK}"
    if found is None:
        return
    for one in scene.names_on(found.tensor):
        now = one.tensor.grad_fn
        if now is not None and now._sequence_nr() > found.node._sequence_nr() and not one.tensor._is_view():
            op = spoken(now.name())
            if op in VIEWS or op in ("index_put", "masked_fill"):
                reason.cause = "indexed_assignment"
                reason.say(f"The history of `{one.name}` ends in a write to a part of it now.")
            else:
                reason.cause = "" if _can_be_inplace(op) else "inplace_operation"
                reason.say(f"The history of `{one.name}` ends in `{op}` now, which was recorded after that.")
            return
        held = [name for name, optimizer in scene.objects(torch.optim.Optimizer) if _holds(optimizer, one.tensor)]
        if one.tensor.is_leaf and one.tensor.requires_grad and held:
            steps = listed([f"{name}.step()" for name in held])
            reason.say(f"`{one.name}` is a weight. Not seen; a likely place: {steps}, which writes to it.")
            return


def _holds(optimizer: torch.optim.Optimizer, tensor: torch.Tensor) -> bool:
    return any(one is tensor for group in optimizer.param_groups for one in group["params"])
