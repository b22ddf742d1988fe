"""Why a loss has no history (``no_history``): where it ended, as a watch has seen it, or what is left to see."""

import torch

from course_utils.base.text import describe
from course_utils.base.user_code import Site
from course_utils.why.log import Cut
from course_utils.why.reason import LOOK, Reason
from course_utils.why.scene import Scene

_CAUSES = {
    "mode": "no_grad_mode", "reentrant": "reentrant_checkpoint", "dtype": "not_differentiable",
    "operation": "not_differentiable",
}  # fmt: skip
_CUTS = {
    "detach": "`detach` gives its value without its history",
    "data": "its value is used without its history, as `.data` and NumPy give it",
    "number": "a number is taken out of it, and a Python number has no history",
    "dtype": "whole numbers and truth values have no gradient",
    "operation": "the operation has no derivative",
    "gradient": "`torch.autograd.grad` gives gradients without a history, unless it is told `create_graph=True`",
    "reentrant": "a checkpoint with `use_reentrant=True` records nothing unless one of its inputs requires grad",
    "mode": "recording was switched off",
}
"""What each way to end a history does."""

_UNSEEN = "What Python and NumPy do with numbers and arrays is not seen."


def no_history(scene: Scene) -> Reason:
    """Where the loss lost its history."""
    reason = Reason("does_not_require_grad")
    root = next((one for one in scene.roots if not one.requires_grad), None)
    name = scene.name(root)
    subject = f"`{name}`" if name else "The loss"
    cut = scene.log.cut(root) if root is not None else None
    if cut is not None and cut.how != "values":
        reason.cause = tell_cut(reason, cut, subject)
    elif not scene.recording:
        reason.cause = "no_grad_mode"
        reason.tell("{subject} has no history, and recording is switched off at this moment.", subject=subject)
        reason.unsure = f"Which line switched it off. {LOOK}"
    else:
        _left(reason, scene, root, subject, cut)
    reason.tell("{needed:at} calls backward on what is left.", needed=scene.here)
    reason.happened = [" ".join(reason.happened)]
    return reason


def tell_cut(reason: Reason, cut: Cut, subject: str) -> str:
    """Says where a history ended, and which line switched recording off; returns the cause."""
    reason.tell(
        "{subject} has no history: it ended in {cut}. There, {how}[: {switched_off}, did that].",
        subject=subject, cut=cut.site, how=_CUTS[cut.how], switched_off=cut.switch,
    )  # fmt: skip
    return _CAUSES.get(cut.how, "cut_history")


def tell_places(reason: Reason, places: list[Site]) -> None:
    """Names the lines at which a value went on as a number or an array, where a watch cannot follow it."""
    reason.tell("In what was watched, a history ended in {cut}.", cut=places[:3])
    reason.unsure = f"Where the value went from there. {_UNSEEN}"


def _left(reason: Reason, scene: Scene, root: torch.Tensor | None, subject: str, values: Cut | None) -> None:
    """What the variables show, and the places of which a watch knows no more."""
    modules = [(name, list(module.parameters())) for name, module in scene.objects(torch.nn.Module)]
    frozen = [name for name, ones in modules if ones and not any(one.requires_grad for one in ones)]
    named = [one for one in scene.named if one.tensor is not root]
    watched = root is not None and bool(scene.log.memory(root))
    places = scene.log.cuts_not_followed() if watched else []
    if root is not None and not root.is_floating_point() and not root.is_complex():
        reason.cause = "not_differentiable"
        reason.tell("{subject} is {told}: it holds no decimals.", subject=subject, told=describe(root))
    elif named and not any(one.tensor.requires_grad for one in named):
        reason.cause = "frozen" if frozen else "not_flagged"
        without = [one.name for one in named if one.tensor.is_floating_point()]
        reason.tell(
            "{subject} has no history: [every parameter of {frozen} has `requires_grad=False`, and ]nothing at hand"
            " requires grad[, neither {without}].",
            subject=subject, frozen=frozen, without=[] if frozen else without,
        )  # fmt: skip
    else:
        history = [one.name for one in named if one.tensor.grad_fn is not None]
        reason.tell("{subject} has no history[; of your variables, {names} have one].", subject=subject, names=history)
        reason.unsure = f"Where it was cut. {_UNSEEN if watched else LOOK}"
        if values is not None:
            reason.tell("It was computed from a new tensor, made of plain values in {cut}.", cut=values.site)
        if places:
            tell_places(reason, places)
        if places or values is not None:
            reason.cause = "cut_history"
