"""Errors whose objects are at hand: what can be said of any that has a page in the index (``by_page``), and of those at
which something may be looked at: an attribute, a parameter.
"""

import ast
import re
from collections.abc import Callable

import torch

from course_utils.base.text import describe
from course_utils.source.statements import statement_at
from course_utils.why.log import tensors_in
from course_utils.why.pages import ErrorPage
from course_utils.why.reason import Reason
from course_utils.why.scene import HELD, Scene


def by_page(scene: Scene, page: ErrorPage) -> Reason:
    """What can be said of any error that has a page: the line, what the tensors in it are, what is at hand."""
    reason = Reason(page.key)
    if (look := _LOOKS.get(page.key)) is not None:
        look(reason, scene)
    if not any(role in ("edited", "needed") for role, _ in reason.lines):
        named = [(one.name, _told(one.tensor)) for one in scene.named_in(statement_at(scene.here))]
        told = [f"`{name}` is {said}" for name, said in named if not said.startswith("<")]  # inside of a transform
        reason.tell("{raised}, raised it[: {told}].", raised=scene.here, told="; ".join(told[:4]))
        reason.happened.insert(0, reason.happened.pop())
    if not reason.cause and len(page.causes) == 1:
        reason.cause = page.causes[0].key
        reason.happened.append(page.causes[0].cause)
    return reason


def _told(tensor: torch.Tensor) -> str:
    """What a tensor is, in words."""
    flag = "requires grad" if tensor.requires_grad else "does not require grad"
    return f"{describe(tensor)}, {'a leaf' if tensor.is_leaf else 'a result'} that {flag}"


def _deep_copy(reason: Reason, scene: Scene) -> None:
    """The attribute that the copy stumbles over."""
    keys = [key for key in scene.in_torch("key") if isinstance(key, str) and key not in HELD]
    things = scene.in_torch("x")
    if keys and things:
        reason.cause = "tensor_on_module"
        said = "The result that it met is `{name}` of the {kind}."
        reason.tell(said, name=".".join(keys), kind=type(things[0]).__name__)


def _unused(reason: Reason, scene: Scene) -> None:
    """Which of the tensors the loss does not lead to, and which ones like them it does."""
    asked = list(tensors_in(scene.in_torch("inputs")[:1] or scene.in_torch("t_inputs")[:1]))
    reached = {id(one) for one in (*scene.nodes, *scene.leaves)}
    missing = [one for one in asked if id(one if one.grad_fn is None else one.grad_fn) not in reached]
    alike = [one for one in scene.leaves if any(one.shape == other.shape for other in missing)]
    others = scene.names(alike)
    reason.cause = "other_object" if others else ""
    said = "Not in the graph: {names}[. Of the same shape, and in it: {others}]."
    reason.tell(said, names=scene.names(missing), others=others)


def _leaf(reason: Reason, scene: Scene) -> None:
    """Which leaf is edited."""
    statement = statement_at(scene.here)
    leaf = next((one for one in scene.named_in(statement) if one.tensor.is_leaf and one.tensor.requires_grad), None)
    made = scene.log.made(leaf.tensor).site if leaf is not None else None
    reason.tell(
        "{edited}, edits [`{name}`, ]a leaf that requires grad[ and was made in {made}], while autograd is recording.",
        edited=scene.here, name=leaf.name if leaf is not None else "", made=made if made != scene.here else None,
    )  # fmt: skip
    if scene.frames[-1].f_code.co_filename.endswith("torch/nn/functional.py"):
        reason.cause = "inplace_first_layer"
    elif any(getattr(node, "attr", "") == "grad" for node in (ast.walk(statement) if statement is not None else ())):
        reason.cause = "manual_step"
    elif leaf is not None:
        reason.cause = "own_initialisation" if isinstance(leaf.tensor, torch.nn.Parameter) else "filled_after_flag"


def _scalar(reason: Reason, scene: Scene) -> None:
    """Which tensor has more than one number, and the line that left it so."""
    root = next(one for one in scene.roots if one.numel() != 1)
    reason.cause = "forgotten_mean"
    reason.tell(
        "{subject}, {told},[ made in {made},] has more than one number. {needed:at} calls backward on it.",
        subject=f"`{name}`" if (name := scene.name(root)) else "What backward was called on", told=describe(root),
        made=scene.log.node(root.grad_fn).site, needed=scene.here,
    )  # fmt: skip
    for site in scene.log.lines(scene.nodes[:20]):
        if re.search(r"reduction\s*=\s*[\"']none", site.source):
            reason.cause = "unreduced_loss"
            reason.point("asked for", site)
    modules = scene.objects(torch.nn.Module)
    if layers := [name for name, module in modules if getattr(module, "reduction", "") == "none"]:
        reason.cause = "unreduced_loss"
        reason.tell('{layers} has `reduction="none"`: a loss for each sample.', layers=layers)
    if any(isinstance(module, torch.nn.DataParallel) for _, module in modules):
        reason.cause = "data_parallel"


_LOOKS: dict[str, Callable[[Reason, Scene], None]] = {
    "deepcopy_non_leaf": _deep_copy, "unused_in_graph": _unused, "leaf_in_place": _leaf, "not_a_scalar": _scalar,
}  # fmt: skip
"""What is looked at, by the page's key."""
