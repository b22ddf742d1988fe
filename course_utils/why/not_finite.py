"""Why a number is NaN or infinite (``not_finite``): as a watch has seen it, or as the graph still shows it."""

import ast
import re
from collections.abc import Callable
from typing import Any

import torch

from course_utils.base.user_code import Site
from course_utils.graph.recorded import nodes_behind, saved_slots
from course_utils.why.log import Log, NotFinite
from course_utils.why.look import kind_of_bad, range_of
from course_utils.why.reason import LOOK, Draft, Reason, cure_of_operation, place, silent, where
from course_utils.why.scene import Scene
from course_utils.why.source import bindings, called, op_of, receiver, runs, statement_at

_SMALL = "1e-8"
# What a node has saved that shows it: the slot, which numbers in it tell, and whether backward alone goes wrong there.
_SIGNS: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor], bool]] = {
    "log": ("self", lambda x: x <= 0, False),
    "sqrt": ("result", lambda x: x == 0, True),
    "rsqrt": ("result", lambda x: ~x.isfinite(), False),
    "div": ("other", lambda x: x == 0, False),
    "reciprocal": ("result", lambda x: ~x.isfinite(), False),
    "exp": ("result", lambda x: x.isinf(), False),
    "acos": ("self", lambda x: x.abs() >= 1, True),
    "asin": ("self", lambda x: x.abs() >= 1, True),
    "atanh": ("self", lambda x: x.abs() >= 1, False),
    "pow": ("self", lambda x: x < 0, True),
    "std": ("result", lambda x: x == 0, True),
    "nllloss": ("total_weight", lambda x: x == 0, False),
    "softmax": ("result", lambda x: x.isnan(), False),
    "logsoftmax": ("result", lambda x: x.isnan(), False),
}  # fmt: skip
_ALSO = {
    "crossentropy": "nllloss",
    "nlllossforward": "nllloss",
    "truediv": "div",
    "rtruediv": "div",
    "log2": "log",
    "log10": "log",
    "linalgvectornorm": "norm",
}


def not_finite(scene: Scene, log: Log | None, tensor: torch.Tensor) -> Reason:
    """Which operation made the first NaN or infinity that got into a tensor."""
    bad = kind_of_bad(tensor) or kind_of_bad(tensor.grad if tensor.grad is not None else tensor)
    name = scene.name(tensor) or "the tensor"
    said = (
        f"`{name}` is {'NaN' if bad == 'nan' else 'infinite'}"
        if kind_of_bad(tensor)
        else f"The gradient of `{name}` is {bad}"
    )
    found = log.not_finite(tensor) if log is not None else None
    if log is not None and (found is None or found.edited is not None) and log.first_backward is not None:
        found = log.first_backward
    return _seen(name, said, found) if found is not None else _shown(scene, name, said, tensor)


def first_bad(log: Log) -> Reason | None:
    """What made the first loss that was not finite, or the first gradient that was NaN; None where none was seen.

    An infinite gradient of a finite loss is what a gradient scaler looks for, and waits out.
    """
    found = log.first_backward
    if found is None or (found.backward and found.what == "inf"):
        return None
    return _seen("loss", "A loss or a gradient was not finite", found)


def nan_in_backward(scene: Scene, log: Log | None) -> Draft:
    """Which operation anomaly mode found, and its line."""
    draft, found = Draft("nan_in_backward", "edge_of_domain"), log.first_backward if log is not None else None
    node = re.search(r"Function '(\w+)' returned nan", scene.message)
    op = op_of(node[1]) if node else ""
    sites = [found.site] if found is not None else [one.site for one in runs(op, scene.files, scene.layers)][:3]
    given = f" It was given {', '.join(found.inputs)}." if found is not None and found.inputs else ""
    draft.say(
        f"The gradient became NaN on its way back through `{op}`{where(sites[0]) if len(sites) == 1 else ''}.{given}"
    )
    draft.unsure = f"Which line: {' or '.join(map(place, sites))}. {LOOK}" if len(sites) > 1 else ""
    for site in sites:
        draft.point("made", site)
    draft.point("needed", scene.back)
    draft.cure = cure_of_operation(_known(op))
    draft.code = _mended(sites[0], _known(op)) if sites else ""
    return draft


def _seen(name: str, said: str, found: NotFinite) -> Reason:
    first = found
    while first.before is not None:
        first = first.before
    title, used = f"Why `{name}` is not finite", ("used", first.site)
    if first.edited is not None:
        edit = first.edited.site
        said += f": a weight was so before it was used{where(first.site)}. It was last edited{where(edit)}."
        return silent("in_the_weights", title, said, (("made", edit), used))
    if first.given:
        return silent("in_the_data", title, f"{said} because the data is: it came in{where(first.site)}.", (used,))
    op = first.name.strip("_")
    way = "backward, on its way back through " if first.backward else ""
    said += f". The first was made by {way}`{op}`{where(first.site)}."
    said += f" It was given {', '.join(first.inputs)}." if first.inputs else ""
    grew = op == "pow" and first.what == "inf" and not first.backward
    became, cure = None, cure_of_operation("overflow" if grew else _known(op))
    if found is not first:
        became = found.site
        said += f" The infinity became a NaN{where(became)}."
    return silent(
        "made_backward" if first.backward else "made_forward", title, said,
        (("made", first.site), ("became NaN", became)), _mended(first.site, _known(op)), cure,
    )  # fmt: skip


def _known(name: str) -> str:
    bare = name.lower().strip("_").replace("_", "")
    return _ALSO.get(bare, bare)


def _shown(scene: Scene, name: str, said: str, tensor: torch.Tensor) -> Reason:
    """What the graph and the user's variables still show."""
    title, unsure = f"Why `{name}` is not finite", f"Which operation made the first; the graph does not show it. {LOOK}"
    for one in scene.named():
        plain = not one.tensor.requires_grad and one.tensor is not tensor and one.tensor.numel() > 1
        if plain and kind_of_bad(one.tensor) and one.name.partition(".")[2] != "grad":
            return silent("in_the_data", title, f"{said} because the data is: `{one.name}` holds it.")
    nodes = [node for node in scene.nodes if not hasattr(node, "variable")]
    for node in sorted(nodes, key=lambda node: node._sequence_nr()):
        op, saved = (
            op_of(node.name()),
            {slot.name: slot.value for slot in saved_slots(node, tells_freed=False) if not slot.packed},
        )
        slot, tells, backward = ("", None, False) if _is_whole_power(node) else _SIGNS.get(op, ("", None, False))
        value, result = saved.get(slot), _is_bad(saved.get("result"))
        shows = isinstance(value, torch.Tensor) and tells is not None and bool(tells(value.detach()).any())
        given = (shows or result) and any(_is_bad(value) for key, value in saved.items() if key != "result")
        if (shows or result) and not given:
            return _by_node(scene, title, said, op, value if shows else None, backward and not result)
    leaves = [node.variable for node in scene.nodes if hasattr(node, "variable")] + [tensor] * tensor.is_leaf
    bad = [leaf for leaf in leaves if _is_bad(leaf) or _is_bad(leaf.grad)]
    if not bad:
        return _by_name(scene, title, said, tensor) or silent("unknown", title, f"{said}.", unsure=unsure)
    whose = scene.name(bad[0])
    said += f", and so is `{whose}` already" if whose and whose != name else ""
    said += ": a step before made it so."
    others = {
        node: None for one in scene.named() if one.tensor.grad_fn is not None for node in nodes_behind(one.tensor)
    }
    around = [op_of(node.name()) for node in (*nodes, *others) if not _is_whole_power(node)]
    steep = [op for op in around if _SIGNS.get(op, ("", None, False))[2]]
    sites = [one.site for op in steep[:1] for one in runs(op, scene.files, scene.layers)]
    if not sites:
        return silent("in_the_weights", title, said, unsure=unsure)
    said += f" `{steep[0]}`{where(sites[0])}, has an infinite derivative at a bound."
    cure = cure_of_operation(steep[0])
    return silent("made_backward", title, said, (("made", sites[0]),), _mended(sites[0], steep[0]), cure, unsure)


def _by_name(scene: Scene, title: str, said: str, tensor: torch.Tensor) -> Reason | None:
    """The first of the user's variables that is not finite, where the graph shows nothing."""
    nodes = {node: node._sequence_nr() for node in scene.nodes}
    shown = [one for one in scene.named() if one.tensor.grad_fn in nodes and _is_bad(one.tensor)]
    for one in sorted(shown, key=lambda one: nodes[one.tensor.grad_fn]):
        node: Any = one.tensor.grad_fn
        op, site = op_of(node.name()), next((two.site for two in bindings(one.name, scene.here)), None)
        if one.tensor is not tensor and site is not None:
            said += f". The first of your variables that is so is `{one.name}`, made by `{op}`{where(site)}."
            mended = _mended(site, _known(op))
            return silent("made_forward", title, said, (("made", site),), mended, cure_of_operation(_known(op)))
    return None


def _by_node(scene: Scene, title: str, said: str, op: str, value: torch.Tensor | None, backward: bool) -> Reason:
    sites = [one.site for one in runs(op, scene.files, scene.layers)][:3]
    at = where(sites[0]) if len(sites) == 1 else ""
    given = f", with numbers from {range_of(value)}" if value is not None else ""
    unsure = f"Which line: {' or '.join(map(place, sites))}. {LOOK}" if len(sites) > 1 else ""
    said += f". The first operation that can have made it is `{op}`{at}{given}."
    mended = _mended(sites[0], _known(op)) if sites else ""
    cause, lines = "made_backward" if backward else "made_forward", [("made", site) for site in sites]
    return silent(cause, title, said, lines, mended, cure_of_operation(_known(op)), unsure)


def _is_whole_power(node: Any) -> bool:
    """Whether it is a square, a cube: finite wherever its input is, and so is its derivative."""
    return node.name() == "PowBackward0" and node._saved_exponent >= 1 and node._saved_exponent % 1 == 0


def _is_bad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and bool(kind_of_bad(value))


def _mended(site: Site, op: str) -> str:
    """The user's line with the operation kept away from zero; "" where that is not one change."""
    statement = statement_at(site)
    for node in statement.inside if statement is not None else ():
        new = ""
        if op == "div" and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            new = f"{ast.unparse(node.left)} / ({ast.unparse(node.right)} + {_SMALL})"
        elif op in ("log", "sqrt", "rsqrt") and isinstance(node, ast.Call) and called(node) == op:
            argument = node.args[0] if node.args else receiver(node)
            text = ast.unparse(argument) if argument is not None else ""
            safe = f"{text if isinstance(argument, _WHOLE) else f'({text})'}.clamp_min({_SMALL})"
            new = f"{ast.unparse(node.func)}({safe})" if node.args else f"{safe}.{op}()"
        if new:
            return site.source.replace(ast.unparse(node), new)
    return ""


_WHOLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
