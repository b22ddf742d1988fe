"""The node that saved a tensor which was edited since (``stale``), and the edits in the source that may be the one
(``likely``).
"""

import ast
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from course_utils.base.torch_private import FunctionBase
from course_utils.graph.recorded import Slot, saved_slots
from course_utils.why.edits import Edit, edits
from course_utils.why.scene import Scene, edits_its_input, layers_of
from course_utils.why.source import bindings, is_op, op_of, statements, value_of, words_of_class

VIEWS = {
    "select", "slice", "asstrided", "t", "transpose", "view", "unbind", "split", "splitwithsizes", "permute", "expand",
    "squeeze", "unsqueeze", "diagonal", "copyslices", "reshapealias", "unsafeview",
}  # fmt: skip


class Stale(NamedTuple):
    """The node that saved the edited tensor, and the tensor as it is now."""

    node: Any
    slot: Slot
    tensor: torch.Tensor


class Message(NamedTuple):
    """What PyTorch's message says: the operation that made the tensor, its shape, and how often it was edited."""

    maker: str
    shape: tuple[int, ...]
    now: int
    expected: int


def read_message(text: str) -> Message:
    maker = re.search(r"is output \d+ of (?:\w+::)*(\w+)", text)
    shape = re.search(r"\[torch\.\w*(?:\.\w+)*Tensor \[([\d, ]*)\]\]", text)
    version = re.search(r"is at version (\d+); expected version (\d+)", text)
    sizes = tuple(int(size) for size in shape[1].split(",") if size.strip()) if shape else ()
    now, expected = (int(version[1]), int(version[2])) if version else (0, 0)
    return Message(maker[1] if maker else "", sizes, now, expected)


def stale(scene: Scene, message: Message) -> Stale | None:
    """The node that backward stopped at: the latest one of those whose saved tensor was edited since."""
    found: Stale | None = None
    for node in scene.nodes:
        if hasattr(node, "variable") or (found is not None and node._sequence_nr() < found.node._sequence_nr()):
            continue
        for slot in saved_slots(node, tells_freed=False):
            tensor = slot.value
            if slot.packed or not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != message.shape:
                continue
            if _is_edited(node, slot):
                found = Stale(node, slot, tensor)
    return found


def _is_edited(node: Any, slot: Slot) -> bool:
    name = slot.name.partition("[")[0]
    try:
        getattr(node, name if isinstance(node, FunctionBase) else f"_saved_{name}")
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


def likely(scene: Scene, found: Stale | None, message: Message, names: Sequence[str]) -> list[Edit]:
    """The edits in the source that may be the one: all that are as likely as the likeliest."""
    files = scene.files
    is_leaf = _is_leaf(scene, found)
    consumers = _consumers(scene, found)
    best: list[tuple[int, Edit]] = []
    for edit in edits(files, scene.inplace):
        worth = _worth(edit, scene, message, names, consumers, is_leaf)
        if worth > 0:
            best.append((worth, edit))
    top = max((worth for worth, _ in best), default=0)
    if not top and not is_leaf:
        return _inside_networks(scene, message)
    return [edit for worth, edit in best if worth == top]


def _inside_networks(scene: Scene, message: Message) -> list[Edit]:
    """The statements that call a network in which a layer edits what the layer before it has made."""
    maker, found = op_of(message.maker) if message.maker else "", []
    for name, module in scene.objects(torch.nn.Module):
        layers = [layer for _, layer in layers_of(module) if not list(layers_of(layer))]
        pairs = itertools.pairwise(layers)
        if any(edits_its_input(after) and maker in words_of_class(type(one).__name__) for one, after in pairs):
            for one in (one for file in scene.files for one in statements(file)):
                calls = [node for node in one.inside if isinstance(node, ast.Call) and ast.unparse(node.func) == name]
                found += [Edit(one, "", "activation", (), call, layer=True) for call in calls[:1]]
    return found[:1]


def _worth(
    edit: Edit, scene: Scene, message: Message, names: Sequence[str], consumers: set[str], is_leaf: bool
) -> int:  # fmt: skip
    site = edit.statement.site
    near = any(frame.site.file == site.file for frame in scene.frames)
    later = site.file == scene.back.file and site.line > scene.back.line
    if later and site.function == "<module>" and not edit.statement.loops:
        return 0  # it has not run yet
    if edit.kind == "step":
        optimizer = scene.value(edit.name)
        steps = is_leaf and (optimizer is None or isinstance(optimizer, torch.optim.Optimizer))
        leaves = {id(scene.value(name)) for name in names}
        groups = optimizer.param_groups if steps and optimizer is not None else []
        holds = any(id(one) in leaves for group in groups for one in group["params"])
        return (6 + 2 * holds + near) if steps else 0
    value = scene.value(edit.name)
    if value is not None and not isinstance(value, torch.Tensor):
        return 0  # a counter, a list
    worth = 0
    if edit.name in names:
        worth += 6
    elif edit.name.startswith("self.") and any(name.endswith(edit.name.removeprefix("self")) for name in names):
        worth += 5  # `self.weight` is `net.weight`
    made = [value for one in bindings(edit.name, site) if (value := value_of(one)) is not None]
    maker = op_of(message.maker) if message.maker else ""
    if maker and any(is_op(maker, value, scene.layers) for value in made):
        worth += 5
    elif maker and made and maker in edit.ops:
        worth += 4  # where the tensor itself was saved, its history now ends in the edit
    elif maker in VIEWS and edit.kind == "index" and not is_leaf:
        worth += 3  # `out[i] = f(out[i - 1])`: what was saved is a view of it
    if worth and any(any(op == word for word in edit.ops) for op in consumers):
        worth += 1
    if is_leaf and edit.statement.switched_off and not worth:
        worth += 2  # weights by another name: `for p in model.parameters(): p -= ...`
    if worth and any(frame.site.function == site.function for frame in scene.frames):
        worth += 1
    return worth + near if worth else 0


def _is_leaf(scene: Scene, found: Stale | None) -> bool:
    """Whether a weight or another leaf was edited, perhaps by way of a view that was saved."""
    if found is None:
        return False
    base = found.tensor._base if found.tensor._base is not None else found.tensor
    shared = [one.tensor for one in scene.names_on(found.tensor.untyped_storage())]
    return any(one.is_leaf and one.requires_grad for one in (base, *shared))


def _consumers(scene: Scene, found: Stale | None) -> set[str]:
    """The operations that were recorded on the edited tensor's own history: an edit is one of them."""
    source = found.tensor.grad_fn if found is not None else None
    source = source if source is not None else found.node if found is not None else None
    return {op_of(node.name()) for node in scene.nodes if any(one is source for one, _ in node.next_functions)}
