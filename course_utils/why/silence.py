"""Why a tensor has no gradient, or does not move, though no error was raised (``silence``)."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from course_utils.base.text import describe
from course_utils.base.user_code import Site
from course_utils.graph.recorded import nodes_behind, saved_slots
from course_utils.why.history import CUTS, Ending, comes_from, ending, endings, freezing, seen
from course_utils.why.log import Log
from course_utils.why.reason import FINE, Reason, place, silent, where
from course_utils.why.scene import Scene
from course_utils.why.source import (
    Statement,
    bindings,
    called,
    is_backward,
    is_cell,
    name_in,
    op_of,
    receiver,
    runs,
    statements,
)

_FLAT = {"round", "sign", "floor", "ceil", "trunc"}
_LEAKY = {"relu", "threshold", "relu6", "hardtanh"}


def silence(scene: Scene, log: Log | None, tensor: torch.Tensor, loss: torch.Tensor | None) -> Reason:
    """Why a tensor has no gradient, or does not move.

    Args:
        loss: what its gradient was expected of; None where any will do.
    """
    return _Silence(scene, log, tensor, loss).reason()


class _Silence:
    """Goes through the questions one by one; the reason is the first answer."""

    def __init__(self, scene: Scene, log: Log | None, tensor: torch.Tensor, loss: torch.Tensor | None) -> None:
        self.scene, self.log, self.tensor, self.loss = scene, log, tensor, loss
        self.name = scene.name(tensor) or "the tensor"
        self.gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None  # others warn
        self.made = self._bound(self.name)

    def reason(self) -> Reason:
        found = self._flag() or self._leaf() or (self._no_gradient() if self.gradient is None else self._zero())
        return found or self._moves() or self._fine()

    def _say(
        self, cause: str, happened: str, *lines: tuple[str, Site | None], code: str = "", cure: str = ""
    ) -> Reason:
        what = "gets no gradient" if self.gradient is None else "does not move"
        return silent(cause, f"Why `{self.name}` {what}", happened, lines, code, cure)

    def _fine(self, happened: str = "") -> Reason:
        has = "has a gradient" if self.gradient is not None else "needs no gradient now"
        moved = ", and an optimizer moves it" if self._optimizers() else ""
        said = happened or f"`{self.name}`, {describe(self.tensor)}, {has}{moved}."
        return silent(FINE, f"Nothing is wrong with `{self.name}`", said)

    def _bound(self, name: str) -> Site | None:
        return next((one.site for one in bindings(name, self.scene.here)), None)

    def _flag(self) -> Reason | None:
        tensor, name, made = self.tensor, self.name, ("made", self.made)
        if not tensor.is_floating_point() and not tensor.is_complex():
            said = f"`{name}` is {describe(tensor)}: it holds no decimals, so it has no gradient."
            return self._say("whole_numbers", said, made, code=f"{name} = {name}.float().requires_grad_()")
        if tensor.requires_grad:
            return None
        found = ending(self.scene, self.log, tensor, name, self.scene.here)
        raised = f"{name}.requires_grad_()"
        if isinstance(tensor, torch.nn.Parameter) or found.how == "frozen":
            site = freezing(self.scene)
            return self._say(
                "frozen", f"`{name}` has `requires_grad=False`, lowered{where(site)}.", ("cut", site), code=raised
            )
        if found.how in CUTS:
            return self._cut(found, name)
        said = f"`{name}`, made{where(self.made)}, does not require grad, and comes from nothing that does."
        return self._say("not_flagged", said, made, code=raised)

    def _cut(self, found: Ending, name: str) -> Reason:
        off = f" Recording was switched off{where(found.switched)}." if found.switched is not None else ""
        return self._say(
            "no_grad_mode" if found.how == "mode" else "cut_history",
            f"`{name}` has no history from there: it was cut{where(found.site)}. There, {CUTS[found.how]}.{off}",
            ("cut", found.site), ("switched off", found.switched),
        )  # fmt: skip

    def _leaf(self) -> Reason | None:
        node = self.tensor.grad_fn
        if node is None or self.tensor.retains_grad:
            return None
        known = self.log.node(node) if self.log is not None else None
        site = known.site if known is not None else self.made
        code = f"{self.name}.retain_grad()  # before backward"
        left, _, right = (site.source if site is not None else "").partition(" = ")
        if ", requires_grad=True" in right:
            code = f"{left} = ({right.replace(', requires_grad=True', '')}).requires_grad_()"
        said = f"`{self.name}` is no leaf: `{op_of(node.name())}` made it{where(site)}."
        return self._say("not_a_leaf", said, ("made", site), code=code)

    def _no_gradient(self) -> Reason | None:
        if self.tensor.is_leaf and self.tensor._base is not None and self.tensor._base.requires_grad:
            said = f"`{self.name}` is a view, made while recording was off{where(self.made)}, and has no history."
            code = f"{self.name} = {self.name}.detach().clone().requires_grad_()"
            return self._say("no_grad_mode", said, ("made", self.made), code=code)
        losses = [self.loss] if self.loss is not None else list(self._losses())
        reached = next((one for one in losses if self._leads_to(one)), None)
        passed = self.log is not None and any(
            one.leaves.intersection(self.log.numbers_of(self.tensor)) for one in self.log.passes
        )
        if reached is not None or passed:
            return self._waits(reached, passed)
        for loss in losses:
            cut = self._ending(loss)
            if cut is not None:
                return self._cut(cut, self.scene.name(loss) or "loss")
        name = self.scene.name(self.loss) if self.loss is not None else ""
        whose = f"of `{name}`" if name else "of any loss that is left"
        return self._say("unused", f"`{self.name}` is not in the graph {whose}: it was not used.", ("made", self.made))

    def _losses(self) -> Iterator[torch.Tensor]:
        """The single numbers that the user's variables hold, those with a history first."""
        found = [one.tensor for one in self.scene.named() if one.tensor.numel() == 1 and one.tensor is not self.tensor]
        found = [one for one in found if one.is_floating_point() and not isinstance(one, torch.nn.Parameter)]
        yield from sorted(found, key=lambda one: (one.grad_fn is None, "loss" not in self.scene.name(one)))

    def _leads_to(self, loss: torch.Tensor) -> bool:
        own = self.tensor.grad_fn
        nodes = nodes_behind(loss)
        return any(getattr(node, "variable", node) is (self.tensor if own is None else own) for node in nodes)

    def _ending(self, loss: torch.Tensor) -> Ending | None:
        """Where the way from the tensor to a loss is cut."""
        cuts = self.log.cuts_in(nodes_behind(loss), self.tensor) if self.log is not None else []
        if cuts:
            return seen(cuts[0])
        name, owner, here = self.scene.name(loss), re.split(r"[.\[]", self.name)[0], self.scene.here
        if not name:
            return None
        whole = loss.grad_fn is None
        found = [ending(self.scene, self.log, loss, name, here)] if whole else endings(self.scene, name, here)
        found = [one for one in found if one.how in CUTS and one.site is not None]
        whose = [one for one in found if one.site is not None and comes_from(owner, one.site)]
        in_methods = [one for one in found if one.site is not None and "." in one.site.function]
        return next(iter(whose or in_methods), None)

    def _waits(self, loss: torch.Tensor | None, passed: bool) -> Reason | None:
        """It is part of a graph, and has no gradient: backward was not called, or the gradient was cleared."""
        slots = [slot for node in nodes_behind(loss) for slot in saved_slots(node)] if loss is not None else []
        freed = any(slot.freed for slot in slots)
        back = self._last(is_backward)
        if not freed and not passed:
            name = (self.scene.name(loss) if loss is not None else "") or "loss"
            said = f"`{self.name}` is in the graph of `{name}`, and backward was not called yet"
            said += (
                "." if slots or self.log is not None else ", or its gradient was cleared since."
            )  # nothing to be freed
            return self._say("no_backward", said, ("loss", self._bound(name)), code=f"{name}.backward()")
        clears = self._cleared(back)
        if not self.tensor.is_leaf:
            asked = self._last(lambda node: called(node) == "retain_grad")
            said = (
                f"`{self.name}` asked for its gradient{where(asked)} when backward had passed, or it was cleared since."
            )
            code = f"{self.name}.retain_grad()  # before backward"
            return self._say("not_a_leaf", said, ("made", self.made), ("backward", back), code=code)
        if clears is not None and self._has_moved():
            return self._fine(f"`.grad` is None since it was cleared{where(clears)}; the step before that used it.")
        said = f"A gradient arrived in `{self.name}`, and was cleared since{where(clears)}."
        step = self._last(lambda node: called(node) == "step")
        if clears is None or back is None or step is None or not back.line < clears.line < step.line:
            return self._say("cleared", said, ("cleared", clears), ("backward", back))
        cure = f"Clear it after the step, or before `backward()`: {place(step)} finds no gradient to step with."
        return self._say("cleared", said, ("cleared", clears), ("backward", back), ("step", step), cure=cure)

    def _cleared(self, back: Site | None) -> Site | None:
        found = self._last(lambda node: called(node) == "zero_grad")
        # Another cell than that of backward may be older, and clear another net's gradients.
        older = found is not None and back is not None and is_cell(found.file) and found.file != back.file
        return None if older else found

    def _last(self, wanted: Callable[[Any], bool]) -> Site | None:
        """The last line that has something in it, of the first file that has one."""
        for file in self.scene.files:
            found = [one.site for one in statements(file) if any(map(wanted, one.inside)) and self._may_have_run(one)]
            if found:
                return found[-1]
        return None

    def _may_have_run(self, one: Statement) -> bool:
        """A line below the one that asks, in the same function, has not run yet, unless a loop goes round both."""
        here = self.scene.here
        same = (one.site.file, one.site.function) == (here.file, here.function)
        return not same or one.site.line <= here.line or any(loop.lineno <= here.line for loop in one.loops)

    def _zero(self) -> Reason | None:
        if self.gradient is None or bool((self.gradient.detach() != 0).any()):
            return None
        zero = f"The gradient of `{self.name}` is zero"
        for hook in (self.tensor._backward_hooks or {}).values():
            code = getattr(hook, "__code__", None)
            site = Site(code.co_filename, code.co_firstlineno, code.co_qualname) if code is not None else None
            return self._say("zero_hook", f"{zero}, and a hook on it{where(site)}, has the last word.", ("hook", site))
        losses = [self.loss] if self.loss is not None else [one for one in self._losses() if self._leads_to(one)]
        nodes = [node for loss in losses[:1] for node in nodes_behind(loss)]
        for cause, ops, why in (
            ("zero_derivative", _FLAT, "whose derivative is zero everywhere"),
            ("dead_unit", _LEAKY, "which gives zero, and a derivative of zero, for all that is not positive"),
        ):
            node = next((node for node in nodes if op_of(node.name()) in ops), None)
            if node is not None and not (cause == "dead_unit" and any(map(_is_half, [self.tensor, *nodes]))):
                site = self._site(node)
                said = f"{zero}: it comes through `{op_of(node.name())}`{where(site)}, {why}."
                return self._say(cause, said, ("zero", site))
        if any(map(_is_half, [self.tensor, *nodes])):
            return self._say("underflow", f"{zero}, and it was worked out in float16.")
        return self._say("zero_gradient", f"{zero}, though it arrived.")

    def _site(self, node: Any) -> Site | None:
        known = self.log.node(node) if self.log is not None else None
        if known is not None:
            return known.site
        return next((one.site for one in runs(op_of(node.name()), self.scene.files, self.scene.layers)), None)

    def _optimizers(self) -> list[tuple[str, torch.optim.Optimizer]]:
        return self.scene.objects(torch.optim.Optimizer)

    def _moves(self) -> Reason | None:
        """Whether an optimizer changes it."""
        optimizers = self._optimizers()
        if not optimizers or self.gradient is None or not self.tensor.is_leaf:
            return None
        own = [
            (name, one, group) for name, one in optimizers for group in one.param_groups
            if any(other is self.tensor for other in group["params"])
        ]  # fmt: skip
        name, optimizer, group = own[0] if own else (*optimizers[0], {})
        made = ("optimizer", self._bound(name))
        if not own:
            said = f"`{self.name}` has a gradient, and no optimizer has it: `{name}`, made{where(made[1])}, has others."
            return self._say(
                "not_in_optimizer", said, made, code=f'{name}.add_param_group({{"params": [{self.name}]}})'
            )
        rate, last = float(group["lr"]), name.rpartition(".")[2]
        if not rate:
            said = f"`{self.name}` has a gradient, and `{name}` moves it with a learning rate of 0."
            return self._say("learning_rate_zero", said, made)
        step = self._last(lambda node: called(node) == "step" and name_in(receiver(node)).endswith(last))
        if step is None and not self._has_moved():
            said = f"`{self.name}` has a gradient and `{name}` has `{self.name}`, and no line calls `{name}.step()`."
            return self._say("no_step", said, ("backward", self._last(is_backward)), code=f"{name}.step()")
        change = rate * self.gradient.detach().abs().max().item()
        least = torch.finfo(self.tensor.dtype).eps * self.tensor.detach().abs().max().item() / 4
        if isinstance(optimizer, torch.optim.SGD) and change < least:
            said = f"A step changes `{self.name}` by at most {change:.1g}, which is less than its numbers can hold."
            return self._say("step_too_small", said, made)
        return None

    def _has_moved(self) -> bool:
        """Whether an optimizer has changed it, as far as that leaves a trace."""
        if self.log is not None:
            return self.log.stepped(self.tensor)
        stated = any(self.tensor in one.state and one.state[self.tensor] for _, one in self._optimizers())
        return stated or self.tensor._version > 1


def _is_half(thing: Any) -> bool:
    """Whether a tensor, or something that a node has saved, is in float16."""
    if isinstance(thing, torch.Tensor) or hasattr(thing, "variable"):
        return getattr(thing, "variable", thing).dtype is torch.float16
    values = (slot.value for slot in saved_slots(thing, tells_freed=False))
    return any(isinstance(value, torch.Tensor) and value.dtype is torch.float16 for value in values)
