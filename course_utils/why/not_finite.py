"""Why a number is NaN or infinite (``not_finite``): as a watch has seen it, or as the graph still shows it."""

import re

import torch

from course_utils.base.files import prose
from course_utils.why.log import Log, NotFinite, kind_of_bad, leaves_behind, spoken
from course_utils.why.reason import LOOK, Reason, silences
from course_utils.why.scene import Scene


def not_finite(scene: Scene, tensor: torch.Tensor) -> Reason:
    """Which operation made the first NaN or infinity that got into a tensor, or into its gradient."""
    log, name, own = scene.log, scene.name(tensor) or "the tensor", bool(kind_of_bad(tensor))
    shown = tensor if own or tensor.grad is None else tensor.grad
    whose = f"`{name}`" if own else f"the gradient of `{name}`"
    reason = Reason("", title=f"Why {whose} is not finite")
    reason.tell("{whose} is {kind}.", whose=whose, kind="NaN" if kind_of_bad(shown) == "nan" else "infinite")
    found = log.of(shown, "bad")
    if found is None or found.edited.file:
        # A weight is so because a gradient was: of the passes that led to it, or to what the loss comes from.
        numbers = log.numbers_of(leaves_behind(tensor))
        found = next((one.bad for one in log.passes if one.bad is not None and numbers & one.leaves), found)
    if found is not None:
        _seen(reason, found)
    else:
        _shown(reason, scene, tensor)
    if reason.cause in ("made_forward", "made_backward") and any(spoken(one.name()) == "where" for one in scene.nodes):
        reason.cure = _cure("where")
    reason.happened = [" ".join(reason.happened)]
    return reason


def first_bad(log: Log) -> Reason | None:
    """What made the first loss that was not finite, or the first gradient that was NaN; None where none was seen.

    An infinite gradient of a finite loss that makes no NaN is what a gradient scaler looks for, and waits out.
    """
    found = log.first_bad
    if found is None or (found.backward and found.what == "inf"):
        return None
    reason = Reason("", title="Why a loss or a gradient is not finite")
    _seen(reason, found)
    return reason


def nan_in_backward(scene: Scene) -> Reason:
    """Which operation anomaly mode found, and its line."""
    reason, found = Reason("nan_in_backward", "edge_of_domain"), scene.log.first_bad or NotFinite()
    node = re.search(r"Function '(\w+)' returned nan", scene.message)
    op = spoken(node[1]) if node else "an operation"
    reason.tell(
        "The gradient became NaN on its way back through `{op}`[ in {made}].[ It was given {numbers}.]",
        op=op, made=found.site, numbers=", ".join(found.inputs),
    )  # fmt: skip
    reason.unsure = "" if found.site.file else f"Which line: the warning above the error shows it. {LOOK}"
    reason.point("needed", scene.back)
    reason.cure = _cure(op)
    return reason


def _seen(reason: Reason, found: NotFinite) -> None:
    """What a watch has seen make it."""
    first = found
    while first.before is not None:
        first = first.before
    op = spoken(first.name)
    if first.given and first.edited.file:
        reason.cause = "in_the_weights"
        said = "A weight was so before it was used in {used}: it was last edited in {made}."
        reason.tell(said, used=first.site, made=first.edited)
    elif first.given:
        reason.cause = "in_the_data"
        reason.tell("The data is so: it came in[ in {used}].", used=first.site)
    else:
        reason.cause = "made_backward" if first.backward else "made_forward"
        reason.tell(
            "The first was made by {way}`{op}`[ in {made}].[ It was given {numbers}.]",
            way="backward, on its way back through " * first.backward, op=op, made=first.site,
            numbers=", ".join(first.inputs),
        )  # fmt: skip
        reason.cure = _cure("overflow" if op == "pow" and first.what == "inf" and not first.backward else op)
    if found.site != first.site:
        reason.tell("The infinity became a NaN in {became_NaN}.", became_NaN=found.site)


def _shown(reason: Reason, scene: Scene, tensor: torch.Tensor) -> None:
    """What the graph and the user's variables still show."""
    reason.unsure = f"Which operation made the first; the graph does not show it. {LOOK}"
    plain = [one.name for one in scene.named if not one.tensor.requires_grad and kind_of_bad(one.tensor) == "nan"]
    weights = scene.names(leaf for leaf in scene.leaves if leaf is not tensor and kind_of_bad(leaf))
    reason.cause = "in_the_weights" if weights else ""
    reason.tell("[So are {weights} already. ][Of your data, {plain} hold NaN.]", weights=weights, plain=plain)


def _cure(op: str) -> str:
    """What helps where an operation makes a NaN or an infinity; "" where nothing is known of it."""
    return prose(silences()["operations"].get(op.replace("_", ""), ""))
