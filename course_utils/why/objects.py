"""Errors whose objects are at hand: what can be said of any that has a page in the index (``by_page``), and of those at
which something may be looked at: a Function, a hook, a checkpointed block, an attribute, a parameter.
"""

import ast
import contextlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from course_utils.base.text import describe
from course_utils.base.user_code import Site, is_user_file
from course_utils.source.statements import statement_at
from course_utils.why.log import Log
from course_utils.why.look import tensors_in
from course_utils.why.pages import ErrorPage
from course_utils.why.reason import Reason, begin, listed, place, where
from course_utils.why.scene import HELD, Scene


def by_page(scene: Scene, log: Log | None, page: ErrorPage) -> Reason:
    """What can be said of any error that has a page: the line, what the tensors in it are, what is at hand."""
    reason, here = Reason(page.key), _in_worker(scene) or scene.here
    reason.say(f"{begin(place(here))}, `{here.source}`, raised it." if here.file else "")
    reason.point("raised", here)
    expression = scene.frames[0].expression if scene.frames and here == scene.here else None
    said = [f"`{name}` is {told}" for name, one in _tensors_of(scene, expression) if (told := _told(one))]
    reason.say("; ".join(said[:4]) + "." if said else "")
    for wanted, look in _LOOKS:
        if wanted in page.key:
            look(reason, scene, log)
    if not reason.cause and len(page.causes) == 1:
        reason.cause = page.causes[0].key
        reason.say(page.causes[0].cause)
    return reason


def _in_worker(scene: Scene) -> Site | None:
    """The user's line in another process, whose traceback the message holds."""
    lines = re.findall(r'^\s*File "(.+?)", line (\d+), in (.+)$', scene.message, re.MULTILINE)
    users = [Site(file, int(line), function) for file, line, function in lines if is_user_file(file)]
    return users[-1] if users else None


def _tensors_of(scene: Scene, expression: ast.AST | None) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that an expression names."""
    seen = set()
    for node in ast.walk(expression) if expression is not None else ():
        name = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        value: Any = scene.value(name) if name and name not in seen else None
        seen.add(name)
        if issubclass(type(value), torch.Tensor):
            yield name, value


def _told(tensor: torch.Tensor) -> str:
    """What a tensor is; "" inside of a transform, where it does not say so."""
    flag = "requires grad" if tensor.requires_grad else "does not require grad"
    said = describe(tensor)
    return "" if said.startswith("<") else f"{said}, {'a leaf' if tensor.is_leaf else 'a result'} that {flag}"


def _line_of(function: Any) -> Site | None:
    """Where a function of the user's begins."""
    function = getattr(function, "forward", function) if isinstance(function, torch.nn.Module) else function
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if code is None or not is_user_file(code.co_filename):
        return None
    site = Site(code.co_filename, code.co_firstlineno, code.co_qualname)
    while site.source.startswith("@"):  # a function begins at its decorators
        site = replace(site, line=site.line + 1)
    return site


def _function(reason: Reason, scene: Scene, log: Log | None) -> None:
    """The class of a custom Function, and its ``backward``."""
    for node in scene.nodes:
        kind = getattr(node, "_forward_cls", None)
        if kind is not None and node.name() in scene.message:
            site = _line_of(kind.backward)
            arguments = list(inspect.signature(kind.forward).parameters)[1:]
            reason.say(
                f"It is `{kind.__name__}.backward`{where(site)}; `{kind.__name__}.forward` takes {listed(arguments)}."
            )
            if "number of gradients" in scene.message:
                reason.cure = f"Return one for each of {listed(arguments)}, in this order: None for what is no tensor."
            reason.point("backward", site)
            return


def _hook(reason: Reason, scene: Scene, log: Log | None) -> None:
    for hook in scene.in_torch("hook"):
        site = _line_of(hook)
        reason.say(f"The hook begins{where(site)}." if site is not None else "")
        reason.point("hook", site)


def _checkpoint(reason: Reason, scene: Scene, log: Log | None) -> None:
    """The block that a checkpoint computes anew."""
    blocks = scene.in_torch("function")
    for frame in scene.in_torch("frame"):
        again = getattr(frame, "recompute_fn", None)
        cells = dict(zip(again.__code__.co_freevars, again.__closure__, strict=True)) if again is not None else {}
        with contextlib.suppress(ValueError, KeyError):  # a cell that is empty by now
            blocks.append(cells["fn"].cell_contents)
    for block in blocks[:1]:
        site = _line_of(block)
        reason.say(f"The block under `checkpoint` begins{where(site)}." if site is not None else "")
        reason.point("block", site)


def _deep_copy(reason: Reason, scene: Scene, log: Log | None) -> None:
    """The attribute that the copy stumbles over."""
    keys = [key for key in scene.in_torch("key") if isinstance(key, str) and key not in HELD]
    things = scene.in_torch("x")
    if keys and things:
        reason.cause = "tensor_on_module"
        reason.say(f"The result that it met is `{'.'.join(keys)}` of the {type(things[0]).__name__}.")
        reason.cure = (
            f"Store it without its history, `self.{keys[-1]} = h.detach()`, or set it to None before you copy."
        )


def _unused(reason: Reason, scene: Scene, log: Log | None) -> None:
    """Which of the tensors the loss does not lead to, and which ones like them it does."""
    asked = list(tensors_in(scene.in_torch("inputs")[:1] or scene.in_torch("t_inputs")[:1]))
    reached = {id(getattr(node, "variable", node)) for node in scene.nodes}
    missing = [one for one in asked if id(one if one.grad_fn is None else one.grad_fn) not in reached]
    there = [node.variable for node in scene.nodes if hasattr(node, "variable")]
    alike = [one for one in there if any(one.shape == other.shape for other in missing)]
    names, others = _names(scene, missing), _names(scene, alike)
    reason.say(f"Not in the graph: {listed(names[:4])}." if names else "")
    if others:
        reason.cause = "other_object"
        reason.say(f"Of the same shape, and in it: {listed(others[:4])}.")
        reason.cure = f"Ask for those that were computed with: {listed(others[:4])}."


def _names(scene: Scene, tensors: Iterable[torch.Tensor]) -> list[str]:
    return list(dict.fromkeys(name for one in tensors if (name := scene.name(one))))


def _no_leaf(reason: Reason, scene: Scene, log: Log | None) -> None:
    """The result that an optimizer was given."""
    for one in scene.in_torch("param")[-1:]:
        known = log.node(one.grad_fn) if log is not None and one.grad_fn is not None else None
        if known is not None:
            reason.say(f"`{scene.name(one) or 'It'}` was made{where(known.site)}.")
            reason.point("made", known.site)


def _scaler(reason: Reason, scene: Scene, log: Log | None) -> None:
    """Whether anything led to the optimizer's weights."""
    for optimizer in scene.in_torch("optimizer")[:1]:
        weights = [one for group in optimizer.param_groups for one in group["params"]]
        if any(one.grad is not None for one in weights):
            return
        reason.say("None of the optimizer's weights has a gradient.")
        for one in scene.named:
            if one.tensor.is_leaf and one.tensor.requires_grad and one.tensor.dim() == 0:
                reason.cause = "other_parameters"
                reason.say(f"`{one.name}` is a leaf: made anew from a value, it leads back to no weight.")
                reason.cure = f"Use what `{one.name}` was made of: without `.item()` and `torch.tensor`."


def _awaited(reason: Reason, scene: Scene, log: Log | None) -> None:
    """Which parameters got no gradient, where DDP says their numbers."""
    numbers = re.search(r"for rank \d+: ([\d ]+)", scene.message)
    wrapped = [model for _, model in scene.objects(torch.nn.parallel.DistributedDataParallel)]
    if numbers and len(wrapped) == 1:
        named = torch.nn.Module.named_parameters(wrapped[0].module)
        waiting = dict(enumerate(name for name, parameter in named if parameter.requires_grad))
        missing = [waiting[int(number)] for number in numbers[1].split() if int(number) in waiting]
        reason.say(f"No gradient came for {listed(missing)}." if missing else "")
        reason.cause = "unused_branch" if missing else ""


def _leaf(reason: Reason, scene: Scene, log: Log | None) -> None:
    """Which leaf is edited."""
    here = _in_worker(scene) or scene.here
    reason.lines = [("edited", here)] * bool(here.file)
    statement = statement_at(here)
    named = list(_tensors_of(scene, statement)) if here == scene.here else []
    leaf = next(((name, one) for name, one in named if one.is_leaf and one.requires_grad), None)
    inside = scene.entries[-1].tb_frame.f_code.co_filename if scene.entries else ""
    if leaf is not None:
        reason.happened = []
        reason.say(f"`{leaf[0]}`, {describe(leaf[1])}, is a leaf that requires grad.")
        reason.say(f"{begin(place(here))} edits it, `{here.source}`, while autograd is recording.")
        made = log.made(leaf[1]) if log is not None else None
        reason.point("made", made.site if made is not None and made.site != here else None)
    if inside.endswith("torch/nn/functional.py"):
        reason.cause = "inplace_first_layer"
    elif any(getattr(node, "attr", "") == "grad" for node in (ast.walk(statement) if statement is not None else ())):
        reason.cause = "manual_step"
    elif leaf is not None:
        reason.cause = "own_initialisation" if isinstance(leaf[1], torch.nn.Parameter) else "filled_after_flag"


def _scalar(reason: Reason, scene: Scene, log: Log | None) -> None:
    """Which tensor has more than one number, and the line that left it so."""
    root = next((one for one in scene.roots if one.numel() != 1), None)
    made = log.node(root.grad_fn) if log is not None and root is not None and root.grad_fn is not None else None
    site = made.site if made is not None else None
    name = scene.name(root) if root is not None else ""
    shape = f", {describe(root)}," if root is not None else ""
    reason.happened, reason.lines = [], []
    line = f" made{where(site)}" if site is not None else ""
    subject = f"`{name}`" if name else "What backward was called on"
    reason.say(f"{subject}{shape}{line} has more than one number.", f"{begin(place(scene.here))} calls backward on it.")
    reason.point("made", site)
    reason.point("needed", scene.here)
    reason.cause = "forgotten_mean"
    calls = [log.node(node) for node in scene.nodes[:20] if not hasattr(node, "variable")] if log is not None else []
    for one in dict.fromkeys(call.site for call in calls if call is not None):
        statement = statement_at(one)
        words = [
            node for node in (ast.walk(statement) if statement is not None else ()) if isinstance(node, ast.keyword)
        ]
        if any(word.arg == "reduction" and getattr(word.value, "value", "") == "none" for word in words):
            reason.cause = "unreduced_loss"
            reason.point("asked for", one)
    layers = [own for own, module in scene.objects(torch.nn.Module) if getattr(module, "reduction", "") == "none"]
    if layers:
        reason.cause = "unreduced_loss"
        reason.say(f'{listed(layers)} has `reduction="none"`: a loss for each sample.')
    if any(isinstance(one, torch.nn.DataParallel) for _, one in scene.objects(torch.nn.Module)):
        reason.cause = "data_parallel"


_LOOKS: tuple[tuple[str, Callable[[Reason, Scene, Log | None], None]], ...] = (
    ("function_", _function), ("hook", _hook), ("checkpoint_", _checkpoint), ("deepcopy", _deep_copy),
    ("unused_in_graph", _unused), ("optimizer_non_leaf", _no_leaf), ("scaler_no_inf", _scaler),
    ("ddp_unused", _awaited), ("leaf_in_place", _leaf), ("not_a_scalar", _scalar),
)  # fmt: skip
"""What is looked at, by a part of the page's key."""
