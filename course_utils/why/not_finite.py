"""Why a number is NaN or infinite (``not_finite``): as a watch has seen it, or as the graph still shows it."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from course_utils.base.files import prose
from course_utils.graph.recorded import nodes_behind, saved_slots
from course_utils.graph.storages import storages_of
from course_utils.why.log import Log, NotFinite
from course_utils.why.look import kind_of_bad, range_of, spoken
from course_utils.why.reason import FINE, LOOK, UNKNOWN, Reason, listed, silences, where
from course_utils.why.scene import Scene

# What a node has saved that shows it: the slot, which numbers in it tell, and whether backward alone goes wrong there.
_SIGNS: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor], bool]] = {
    "log": ("self", lambda x: x <= 0, False),
    "log2": ("self", lambda x: x <= 0, False),
    "log10": ("self", lambda x: x <= 0, False),
    "sqrt": ("result", lambda x: x == 0, True),
    "rsqrt": ("result", lambda x: ~x.isfinite(), False),
    "div": ("other", lambda x: x == 0, False),
    "reciprocal": ("result", lambda x: ~x.isfinite(), False),
    "exp": ("result", lambda x: x.isinf(), False),
    "acos": ("self", lambda x: x.abs() >= 1, True),
    "asin": ("self", lambda x: x.abs() >= 1, True),
    "atanh": ("self", lambda x: x.abs() >= 1, False),
    "pow": ("self", lambda x: x <= 0, True),
    "norm": ("result", lambda x: x == 0, True),
    "std": ("result", lambda x: x == 0, True),
    "nll_loss": ("total_weight", lambda x: x == 0, False),
    "softmax": ("result", lambda x: x.isnan(), False),
    "log_softmax": ("result", lambda x: x.isnan(), False),
}  # fmt: skip
_NOWHERE = ("", lambda x: x, False)


def not_finite(scene: Scene, log: Log | None, tensor: torch.Tensor) -> Reason:
    """Which operation made the first NaN or infinity that got into a tensor, or into its gradient."""
    own, name = kind_of_bad(tensor), scene.name(tensor) or "the tensor"
    shown = tensor if own else tensor.grad
    kind = "NaN" if own == "nan" or (not own and shown is not None and kind_of_bad(shown) == "nan") else "infinite"
    reason = Reason("", title=f"Why {'' if own else 'the gradient of '}`{name}` is not finite")
    said = f"`{name}` is {kind}" if own else f"The gradient of `{name}` is {kind}"
    found = log.not_finite(shown) if log is not None and shown is not None else None
    if log is not None and (found is None or found.edited is not None):
        # A weight is so because a gradient was: of the passes that led to it, or to what the loss comes from.
        leaves = [tensor, *(node.variable for node in nodes_behind(tensor) if hasattr(node, "variable"))]
        numbers = {number for leaf in leaves for number in log.numbers_of(leaf)}
        found = next((one.bad for one in log.passes if one.bad is not None and numbers & one.leaves), found)
    if found is not None:
        _seen(reason, said, found)
    else:
        _shown(reason, scene, said, tensor)
    chosen = any(spoken(node.name()) == "where" for node in scene.nodes)
    if chosen and reason.cause in ("made_forward", "made_backward"):
        reason.cure = _cure("where")
    return reason


def finite(scene: Scene, loss: torch.Tensor) -> Reason:
    """A loss that is finite: whether the gradients and the weights behind it are."""
    name = scene.name(loss) or "the loss"
    for leaf in (node.variable for node in scene.nodes if hasattr(node, "variable")):
        for what, own in (("", leaf), ("The gradient of ", leaf.grad)):
            if own is not None and kind_of_bad(own):
                whose = scene.name(leaf) or f"a weight of shape {list(leaf.shape)}"
                reason = Reason("", UNKNOWN, f"`{name}` is finite, and a weight behind it is not")
                reason.say(f"`{name}` is finite. {what}`{whose}` is not: `why({whose})` says where that came from.")
                return reason
    reason = Reason("", FINE, f"Nothing is seen to be wrong with `{name}`")
    reason.say(f"`{name}` is finite, {range_of(loss)}, and so are the weights behind it and their gradients.")
    return reason


def first_bad(log: Log) -> Reason | None:
    """What made the first loss that was not finite, or the first gradient that was NaN; None where none was seen.

    An infinite gradient of a finite loss that makes no NaN is what a gradient scaler looks for, and waits out.
    """
    found = log.first_bad
    if found is None or (found.backward and found.what == "inf"):
        return None
    reason = Reason("", title="Why a loss or a gradient is not finite")
    _seen(reason, "A loss or a gradient was not finite", found)
    return reason


def nan_in_backward(scene: Scene, log: Log | None) -> Reason:
    """Which operation anomaly mode found, and its line."""
    reason, found = Reason("nan_in_backward", "edge_of_domain"), log.first_bad if log is not None else None
    node = re.search(r"Function '(\w+)' returned nan", scene.message)
    op = spoken(node[1]) if node else ""
    given = f" It was given {', '.join(found.inputs)}." if found is not None and found.inputs else ""
    line = where(found.site) if found is not None else ""
    reason.say(f"The gradient became NaN on its way back through `{op}`{line}.{given}")
    reason.point("made", found.site if found is not None else None)
    reason.unsure = "" if found is not None else f"Which line: the warning above the error shows it. {LOOK}"
    reason.point("needed", scene.back)
    reason.cure = _cure(op)
    return reason


def _seen(reason: Reason, said: str, found: NotFinite) -> None:
    first = found
    while first.before is not None:
        first = first.before
    op = spoken(first.name)
    if first.given and first.edited is not None:
        reason.cause = "in_the_weights"
        said += (
            f": a weight was so before it was used{where(first.site)}. It was last edited{where(first.edited.site)}."
        )
        reason.point("made", first.edited.site)
        reason.point("used", first.site)
    elif first.given:
        reason.cause = "in_the_data"
        said += f" because the data is: it came in{where(first.site)}."
        reason.point("used", first.site)
    else:
        reason.cause = "made_backward" if first.backward else "made_forward"
        way = "backward, on its way back through " if first.backward else ""
        said += f". The first was made by {way}`{op}`{where(first.site)}."
        said += f" It was given {', '.join(first.inputs)}." if first.inputs else ""
        reason.point("made", first.site)
        reason.cure = _cure("overflow" if op == "pow" and first.what == "inf" and not first.backward else op)
    if found is not first:
        said += f" The infinity became a NaN{where(found.site) if found.site != first.site else ''}."
        reason.point("became NaN", found.site if found.site != first.site else None)
    reason.say(said)


def _shown(reason: Reason, scene: Scene, said: str, tensor: torch.Tensor) -> None:
    """What the graph and the user's variables still show."""
    reason.unsure = f"Which operation made the first; the graph does not show it. {LOOK}"
    leaves = [node.variable for node in scene.nodes if hasattr(node, "variable")]
    bad = [name for leaf in leaves if leaf is not tensor and _is_bad(leaf) and (name := scene.name(leaf))]
    plain = [one for one in scene.named if not one.tensor.requires_grad and _is_nan(one.tensor)]
    data = [(one.name, {storage._cdata for storage in _memory(one.tensor)}) for one in plain]
    nodes = [node for node in scene.nodes if not hasattr(node, "variable")]
    for node in sorted(nodes, key=lambda node: node._sequence_nr()):
        op = spoken(node.name())
        saved = {slot.name: slot.value for slot in saved_slots(node, tells_freed=False) if not slot.packed}
        slot, tells, backward = _NOWHERE if _is_whole_power(node) else _SIGNS.get(op, _NOWHERE)
        memory = {storage._cdata for value in saved.values() for storage in _memory(value)} if data else set()
        if name := next((name for name, own in data if own & memory), ""):
            reason.cause, reason.unsure = "in_the_data", ""
            reason.say(f"{said} because the data is: `{name}` holds NaN.")
            return
        value, result = saved.get(slot), _is_bad(saved.get("result"))
        shows = isinstance(value, torch.Tensor) and slot != "" and bool(tells(value.detach()).any())
        if not (shows or result) or any(_is_nan(one) for key, one in saved.items() if key not in ("result", slot)):
            continue
        if not backward or result or bad or not _is_bad(tensor):
            reason.cause = "made_backward" if backward and not result else "made_forward"
            numbers = f", with numbers from {range_of(value)}" if shows and isinstance(value, torch.Tensor) else ""
            reason.say(f"{said}. The first operation that can have made it is `{op}`{numbers}.")
            reason.cure, reason.unsure = _cure(op), f"Which line that is. {LOOK}"
            return
    if bad:
        reason.cause = "in_the_weights"
        said += f", and so {'is' if len(bad) == 1 else 'are'} {listed(bad[:3])} already"
    reason.say(f"{said}.")


def _is_whole_power(node: Any) -> bool:
    """Whether it is a square, a cube: finite wherever its input is, and so is its derivative."""
    return node.name() == "PowBackward0" and node._saved_exponent >= 1 and node._saved_exponent % 1 == 0


def _memory(value: Any) -> Iterable[torch.UntypedStorage]:
    return storages_of(value) if isinstance(value, torch.Tensor) else ()


def _is_bad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and bool(kind_of_bad(value))


def _is_nan(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and kind_of_bad(value) == "nan"


def _cure(op: str) -> str:
    """What helps where an operation makes a NaN or an infinity; "" where nothing is known of it."""
    return prose(silences()["operations"].get(op.replace("_", ""), ""))
