"""Why a tensor has no gradient, or does not move, though no error was raised (``silence``)."""

from collections.abc import Iterator
from typing import Any

import torch

from course_utils.base.text import describe
from course_utils.base.user_code import Site
from course_utils.graph.recorded import nodes_behind, saved_slots
from course_utils.why.history import tell_cut, tell_not_followed
from course_utils.why.log import Log
from course_utils.why.look import spoken
from course_utils.why.reason import FINE, LOOK, UNKNOWN, Reason, listed, place, where
from course_utils.why.scene import HELD, Scene, modules_in, own, parameters_of

_FLAT = {"round", "sign", "floor", "ceil", "trunc"}
_LEAKY = {"relu", "relu6", "hardtanh"}


def silence(scene: Scene, log: Log | None, tensor: torch.Tensor, loss: torch.Tensor | None) -> Reason:
    """Why a tensor has no gradient, or does not move.

    Args:
        loss: what its gradient was expected of; None where any will do.
    """
    return _Silence(scene, log, tensor, loss).reason()


class _Silence:
    """Goes through the questions one by one; the answer is the first that has one."""

    def __init__(self, scene: Scene, log: Log | None, tensor: torch.Tensor, loss: torch.Tensor | None) -> None:
        self.scene, self.tensor, self.loss = scene, tensor, loss
        self.log = log if log is not None and log.memory(tensor) else None  # else it has not met the tensor
        self.name = scene.name(tensor) or "the tensor"
        self.gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None  # others warn
        made = self.log.made(tensor) if self.log is not None else None
        self.made = made.site if made is not None else None

    def reason(self) -> Reason:
        found = self._flag() or self._leaf() or (self._no_gradient() if self.gradient is None else self._zero())
        return found or self._moves() or self._fine()

    def _say(self, cause: str, happened: str, *lines: tuple[str, Site | None], unsure: str = "") -> Reason:
        what = "gets no gradient" if self.gradient is None else "does not move"
        reason = Reason("", cause, f"Why `{self.name}` {what}", unsure=unsure)
        reason.say(happened)
        for role, site in lines:
            reason.point(role, site)
        return reason

    def _fine(self, happened: str = "") -> Reason:
        has = "has a gradient" if self.gradient is not None else "needs no gradient now"
        reason = Reason("", FINE, f"Nothing is seen to be wrong with `{self.name}`")
        reason.say(happened or f"`{self.name}`, {describe(self.tensor)}, {has}.")
        return reason

    def _flag(self) -> Reason | None:
        tensor, name, made = self.tensor, self.name, ("made", self.made)
        if not tensor.is_floating_point() and not tensor.is_complex():
            said = f"`{name}` is {describe(tensor)}: it holds no decimals, so it has no gradient."
            return self._say("whole_numbers", said, made)
        if tensor.requires_grad:
            return None
        cut = self.log.cut(tensor) if self.log is not None else None
        if cut is not None and cut.how != "values":
            reason = self._say("cut_history", "")
            reason.cause = "no_grad_mode" if tell_cut(reason, cut, f"`{name}`") == "mode" else "cut_history"
            return reason
        if isinstance(tensor, torch.nn.Parameter):
            return self._say("frozen", f"`{name}` is a parameter with `requires_grad=False`.")
        return self._say("not_flagged", f"`{name}`{where(self.made)} does not require grad, and has no history.", made)

    def _leaf(self) -> Reason | None:
        node = self.tensor.grad_fn
        if node is None or self.tensor.retains_grad:
            return None
        known = self.log.node(node) if self.log is not None else None
        site = known.site if known is not None else None
        said = f"`{self.name}` is no leaf: `{spoken(node.name())}` made it{where(site)}."
        return self._say("not_a_leaf", said, ("made", site))

    def _no_gradient(self) -> Reason | None:
        if self.tensor.is_leaf and self.tensor._base is not None and self.tensor._base.requires_grad:
            said = f"`{self.name}` is a view, made while recording was off{where(self.made)}, and has no history."
            reason = self._say("no_grad_mode", said, ("made", self.made))
            reason.cure = (
                f"Make a leaf of its own of it: `{self.name} = {self.name}.detach().clone().requires_grad_()`."
            )
            return reason
        losses = [self.loss] if self.loss is not None else list(self._losses())
        reached = next((one for one in losses if self._leads_to(one)), None)
        if reached is not None or (self.log is not None and self.log.passed(self.tensor) is not None):
            return self._waits(reached)
        return self._unreached(losses)

    def _unreached(self, losses: list[torch.Tensor]) -> Reason:
        """No loss leads to it."""
        loss = next(iter(losses), None)
        name = self.scene.name(self.loss) if self.loss is not None else ""
        whose = f"the graph of `{name}`" if name else "the graph of any loss at hand"
        said = f"`{self.name}` is not in {whose}."
        if loss is not None and loss.is_leaf:
            own_flag = " Its own flag is up, as of a tensor that was made anew." if loss.requires_grad else ""
            said += f" `{self.scene.name(loss) or 'loss'}` has no history at all.{own_flag}"
        reason = self._say("unused", said)
        log = self.log
        if log is not None:
            cuts = [cut for one in losses for cut in log.cuts_in(nodes_behind(one), self.tensor)]
            cuts += [cut for one in losses if one.grad_fn is None and (cut := log.cut(one)) is not None]
            plain, free = log.plain(self.tensor), log.cuts_not_followed(self.tensor)
            if cuts:
                how = tell_cut(reason, cuts[0], f"What comes from `{self.name}`")
                reason.cause = "no_grad_mode" if how == "mode" else "cut_history"
                return reason
            if free or plain is not None:
                reason.cause = "cut_history"
                if free:
                    tell_not_followed(reason, free)
                elif plain is not None:
                    reason.say(f"Its value was used without its history{where(plain.site)}.")
                    reason.point("cut", plain.site)
                return reason
        else:
            reason.unsure = f"Whether it was not used, or its history ended on the way. {LOOK}"
        alike = [
            one for node in (nodes_behind(loss) if loss is not None else ())
            if isinstance(one := getattr(node, "variable", None), torch.Tensor) and one.shape == self.tensor.shape
        ]  # fmt: skip
        names = [found for one in alike if (found := self.scene.name(one))]
        reason.say(
            f"Of the same shape, {listed(names[:3])} {'is' if len(names) == 1 else 'are'} in it." if names else ""
        )
        return reason

    def _losses(self) -> Iterator[torch.Tensor]:
        """The single numbers that the user's variables hold, those with a history first."""
        found = [one.tensor for one in self.scene.named if one.tensor.numel() == 1 and one.tensor is not self.tensor]
        found = [one for one in found if one.is_floating_point() and not isinstance(one, torch.nn.Parameter)]
        yield from sorted(found, key=lambda one: (one.grad_fn is None, "loss" not in self.scene.name(one)))

    def _leads_to(self, loss: torch.Tensor) -> bool:
        mine = self.tensor.grad_fn
        nodes = nodes_behind(loss)
        return any(getattr(node, "variable", node) is (self.tensor if mine is None else mine) for node in nodes)

    def _waits(self, loss: torch.Tensor | None) -> Reason | None:
        """It is part of a graph, and has no gradient: backward was not called, or the gradient was cleared."""
        slots = [slot for node in nodes_behind(loss) for slot in saved_slots(node)] if loss is not None else []
        passed = self.log.passed(self.tensor) if self.log is not None else None
        back = ("backward", passed.stack[0] if passed is not None and passed.stack else None)
        if passed is None and not any(slot.freed for slot in slots):
            name = (self.scene.name(loss) if loss is not None else "") or "loss"
            said = f"`{self.name}` is in the graph of `{name}`, and no backward has gone through it"
            more = "." if any(slot.value is not None for slot in slots) else ", or its gradient was cleared since."
            return self._say("no_backward", said + more)
        if not self.tensor.is_leaf:
            said = f"`{self.name}` asked for its gradient when backward had passed, or it was cleared since."
            return self._say("not_a_leaf", said, ("made", self.made), back)
        cleared, stepped = self._last("zero_grad"), self._last("step")
        at = cleared[1] if cleared is not None else None
        used = stepped is not None and passed is not None and stepped[0] > passed.order
        used = used and (cleared is None or stepped[0] < cleared[0]) if stepped is not None else self._has_moved()
        if used:
            return self._fine(f"`.grad` is None since it was cleared{where(at)}; a step before that used it.")
        said = f"A gradient arrived in `{self.name}`, and was cleared since{where(at)}."
        reason = self._say("cleared", said, back, ("cleared", at))
        if cleared is not None and stepped is not None and cleared[0] < stepped[0]:
            reason.point("step", stepped[1])
            reason.cure = f"Clear it after the step, or before `backward()`: {place(stepped[1])} finds no gradient."
        return reason

    def _last(self, what: str) -> tuple[int, Site] | None:
        """When and where an optimizer or a module that has the tensor last stepped or cleared gradients."""
        modules = [one for _, one in self.scene.objects(torch.nn.Module) if self._among(parameters_of(one))]
        owners = [*(one for _, one, _ in self._optimizers()), *modules]
        found = [last for one in owners if self.log is not None and (last := self.log.last(one, what)) is not None]
        return max(found, default=None, key=lambda pair: pair[0])

    def _among(self, tensors: list[torch.Tensor]) -> bool:
        return any(one is self.tensor for one in tensors)

    def _zero(self) -> Reason | None:
        if self.gradient is None or bool((self.gradient.detach() != 0).any()):
            return None
        zero = f"The gradient of `{self.name}` is zero"
        for hook in (self.tensor._backward_hooks or {}).values():
            code = getattr(hook, "__code__", None)
            site = Site(code.co_filename, code.co_firstlineno, code.co_qualname) if code is not None else None
            return self._say("zero_hook", f"{zero}, and a hook on it{where(site)}, has the last word.", ("hook", site))
        edits = self.log.edits(self.gradient) if self.log is not None else []
        if edits and edits[-1].name in ("zero_", "fill_"):
            if self._has_moved():
                return self._fine(f"{zero} since it was cleared{where(edits[-1].site)}; before that, it was used.")
            return self._say(
                "cleared", f"{zero} since it was cleared{where(edits[-1].site)}.", ("cleared", edits[-1].site)
            )
        if self.gradient._version and not edits:
            said = f"{zero}, and its memory was written to since it arrived, as `w.grad.zero_()` does."
            return self._say("cleared", said, unsure=f"Which line wrote to it. {LOOK}")
        losses = [self.loss] if self.loss is not None else [one for one in self._losses() if self._leads_to(one)]
        nodes = [node for loss in losses[:1] for node in nodes_behind(loss)]
        for cause, ops, why in (
            ("zero_derivative", _FLAT, "whose derivative is zero everywhere"),
            ("dead_unit", _LEAKY, "which gives zero, and a derivative of zero, for all that is not positive"),
        ):
            node = next((node for node in nodes if spoken(node.name()) in ops), None)
            if node is not None:
                known = self.log.node(node) if self.log is not None else None
                site = known.site if known is not None else None
                return self._say(
                    cause, f"{zero}: it comes through `{spoken(node.name())}`{where(site)}, {why}.", ("zero", site)
                )
        return self._say("zero_gradient", f"{zero}, though it arrived.")

    def _optimizers(self) -> list[tuple[str, torch.optim.Optimizer, dict[str, Any]]]:
        """Those that have the tensor, and the group that it is in."""
        return [
            (name, one, group) for name, one in self.scene.objects(torch.optim.Optimizer) for group in one.param_groups
            if self._among(group["params"])
        ]  # fmt: skip

    def _moves(self) -> Reason | None:
        """Whether an optimizer changes it."""
        every = self.scene.objects(torch.optim.Optimizer)
        if not every or self.gradient is None or not self.tensor.is_leaf:
            return None
        mine = self._optimizers()
        if not mine:
            hidden = self._in_plain_list()
            others = listed([name for name, _ in every])
            said = f"`{self.name}` has a gradient, and no optimizer has it: {others} has others."
            if hidden:
                said += f" It hangs in `{hidden}`, a plain Python container, where `parameters()` does not look."
            return self._say("hidden_in_list" if hidden else "not_in_optimizer", said)
        name, _, group = mine[0]
        rate, last = float(group["lr"]), self._last("step")
        if not rate:
            return self._say(
                "learning_rate_zero", f"`{self.name}` has a gradient, and `{name}` moves it with a learning rate of 0."
            )
        if not self._has_moved() and self.log is not None and last is None:
            passed = self.log.passed(self.tensor)
            back = passed.stack[0] if passed is not None and passed.stack else None
            said = f"`{self.name}` has a gradient and `{name}` has `{self.name}`, and `{name}.step()` was not called."
            return self._say("no_step", said, ("backward", back))
        if self.log is None and not self._has_moved():
            said = f"`{self.name}` has a gradient, and `{name}`, with a learning rate of {rate:g}, has `{self.name}`."
            return self._say(UNKNOWN, said, unsure=f"Whether `{name}.step()` ran. {LOOK}")
        return None

    def _in_plain_list(self) -> str:
        """The list, tuple or dict of a module that hides the layer whose parameter it is; "" where none does."""
        for name, module in self.scene.objects(torch.nn.Module):
            for inner in modules_in(module):
                for attribute, value in own(inner).items():
                    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
                    layers = [one for one in items if isinstance(one, torch.nn.Module) and attribute not in HELD]
                    if any(self._among(parameters_of(one)) for one in layers):
                        return f"{name}.{attribute}" if inner is module else attribute
        return ""

    def _has_moved(self) -> bool:
        """Whether an optimizer has changed it, as far as that leaves a trace."""
        if self.log is not None:
            return self.log.stepped(self.tensor)
        stated = any(self.tensor in one.state and one.state[self.tensor] for _, one, _ in self._optimizers())
        return stated or self.tensor._version > 1
