"""Why a loss has no history (``no_history``): where it ended, as a watch has seen it, or what is left to see."""

from typing import Any

import torch

from course_utils.base.text import describe
from course_utils.why.log import Cut, Log
from course_utils.why.look import decorated
from course_utils.why.reason import LOOK, Reason, begin, listed, place, where
from course_utils.why.scene import Scene, parameters_of

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

_DECORATED = "Leave the decorator out, or put what is to be recorded into `with torch.enable_grad():`."


def no_history(scene: Scene, log: Log | None) -> Reason:
    """Where the loss lost its history."""
    reason = Reason("does_not_require_grad")
    root = next((one for one in scene.roots if not one.requires_grad), None)
    name = scene.name(root) if root is not None else ""
    subject = f"`{name}`" if name else "The loss"
    cut = log.cut(root) if log is not None and root is not None else None
    if cut is not None and cut.how != "values":
        how = tell_cut(reason, cut, subject)
        reason.cause = _CAUSES.get(how, "cut_history")
    elif not _switched_off(reason, scene, subject):
        _left(reason, scene, log, root, subject, cut)
    reason.happened[-1] += f" {begin(place(scene.here))} calls backward on what is left."
    reason.point("needed", scene.here)
    return reason


def tell_cut(reason: Reason, cut: Cut, subject: str) -> str:
    """Says where a history ended, and who switched recording off; returns how."""
    switch = cut.switch
    how = "reentrant" if switch is not None and switch.how == "checkpoint" else cut.how
    site = switch.site if how == "reentrant" and switch is not None else cut.site
    off = ""
    if how == "mode" and switch is not None:
        by = "The function is decorated" if switch.how == "decorator" else "It was switched off"
        off = f" {by}{where(switch.site)}."
        reason.point("switched off", switch.site)
        if switch.how == "decorator":
            reason.cure = _DECORATED
    if how == "gradient":
        reason.cure = f"Say `create_graph=True` in {place(site)}."
    reason.say(f"{subject} has no history: it ended{where(site)}. There, {_CUTS[how]}.{off}")
    reason.point("cut", site)
    return how


def tell_not_followed(reason: Reason, cuts: list[Cut]) -> None:
    """Names the lines at which a value went on as a number or an array, where a watch cannot follow it."""
    sites = list(dict.fromkeys(cut.site for cut in cuts))
    text = " or ".join(f"{place(site)}, `{site.source}`" for site in sites[:3])
    one = len(sites) == 1
    reason.say(f"{'The one place' if one else 'A place'} where a history ended in what was watched is {text}.")
    reason.unsure = "Where the value went from there: what Python and NumPy do with a number is not seen."
    for site in sites[:3]:
        reason.point("cut", site)


def _switched_off(reason: Reason, scene: Scene, subject: str) -> bool:
    """Recording is off now, or was in a decorated function that the error came through."""
    for site in filter(None, (decorated(entry.tb_frame) for entry in scene.entries)):
        reason.say(
            f"{subject} has no history. The error came through `{site.function}`, decorated{where(site)}: nothing is"
            " recorded in there."
        )
        reason.cure, reason.cause = _DECORATED, "no_grad_mode"
        reason.point("switched off", site)
        return True
    if not scene.recording:
        reason.say(f"{subject} has no history, and recording is switched off at this moment.")
        reason.cause, reason.unsure = "no_grad_mode", f"Which line switched it off. {LOOK}"
    return not scene.recording


def _left(
    reason: Reason, scene: Scene, log: Log | None, root: torch.Tensor | None, subject: str, values: Cut | None
) -> None:
    """What the variables show, and the places of which a watch knows no more."""
    watched = log is not None and root is not None and bool(log.memory(root))
    modules = [(name, parameters_of(module)) for name, module in scene.objects(torch.nn.Module)]
    frozen = [name for name, ones in modules if ones and not any(one.requires_grad for one in ones)]
    flagged = [one.name for one in scene.named if one.tensor.requires_grad]
    without = [one.name for one in scene.named if one.tensor.is_floating_point() and one.tensor is not root]
    if root is not None and not root.is_floating_point() and not root.is_complex():
        reason.cause = "not_differentiable"
        reason.say(f"{subject} is {describe(root)}: it holds no decimals.")
    elif frozen and not flagged:
        reason.cause = "frozen"
        only = f"every parameter of {listed(frozen[:3])} has `requires_grad=False`"
        reason.say(f"{subject} has no history: {only}, and nothing else at hand requires grad.")
    elif not flagged:
        reason.cause = "not_flagged"
        reason.say(f"{subject} has no history: none of your variables requires grad ({listed(without[:4])} do not).")
    else:
        history = [one.name for one in scene.named if one.tensor.grad_fn is not None]
        reason.say(
            f"{subject} has no history.",
            f"Of your variables, {listed(history[:4])} {'has' if len(history) == 1 else 'have'} one."
            if history
            else "",
        )
        cuts: list[Any] = log.cuts_not_followed() if watched and log is not None else []
        if values is not None:
            reason.say(f"It was computed from a new tensor, made of plain values{where(values.site)}.")
            reason.point("cut", values.site)
        if cuts:
            tell_not_followed(reason, cuts)
        if cuts or values is not None:
            reason.cause = "cut_history"
        else:
            unseen = "What Python and NumPy do with numbers and arrays, as after `tolist()`, is not seen."
            reason.unsure = f"Where it was cut. {unseen if watched else LOOK}"
