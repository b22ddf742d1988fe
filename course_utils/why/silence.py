"""Why a tensor has no gradient, or does not move, though no error was raised (``silence``)."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from course_utils.base.text import describe
from course_utils.graph.recorded import nodes_behind, saved_slots
from course_utils.why.history import tell_cut, tell_places
from course_utils.why.look import leaves_behind, line_of, spoken
from course_utils.why.reason import FINE, LOOK, UNKNOWN, Reason, silences
from course_utils.why.scene import HELD, Scene

_FLAT = {
    "zero_derivative": ({"round", "sign", "floor", "ceil", "trunc"}, "whose derivative is zero everywhere"),
    "dead_unit": ({"relu", "relu6", "hardtanh"}, "which gives zero, and a derivative of zero, for all below"),
}
"""Operations through which no gradient comes, by the cause."""


def silence(scene: Scene, tensor: torch.Tensor, loss: torch.Tensor | None) -> Reason:
    """Why a tensor has no gradient, or does not move.

    Args:
        loss: what its gradient was expected of; None where any will do.
    """
    return _Silence(scene, tensor, loss).answer()


class _Silence:
    """Asks one question after the other; the answer is the first that has one."""

    def __init__(self, scene: Scene, tensor: torch.Tensor, loss: torch.Tensor | None) -> None:
        self.scene, self.log, self.tensor, self.loss = scene, scene.log, tensor, loss
        self.watched = bool(scene.log.memory(tensor))
        self.name = scene.name(tensor) or "the tensor"
        self.gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None  # others warn
        self.made, self.passed = scene.log.made(tensor).site, scene.log.passed(tensor)
        self.reason = Reason("")

    def answer(self) -> Reason:
        reason, what = self.reason, "gets no gradient" if self.gradient is None else "does not move"
        for question in (self._flag, self._leaf, self._arrived, self._zero, self._moves):
            if not reason.cause:
                question()
        if not reason.cause:
            has = "has a gradient" if self.gradient is not None else "needs no gradient now"
            self._say(FINE, "`{name}`, {told}, {has}.", told=describe(self.tensor), has=has)
        reason.title = f"Why `{self.name}` {what}"
        if reason.cause == FINE:
            reason.title, reason.lines = f"Nothing is seen to be wrong with `{self.name}`", []
        return reason

    def _say(self, cause: str, text: str, **known: Any) -> None:
        self.reason.cause = cause
        self.reason.tell(text, name=self.name, **known)

    def _flag(self) -> None:
        """Whether it can have a gradient, and asks for one."""
        tensor, cut = self.tensor, self.log.cut(self.tensor)
        if not tensor.is_floating_point() and not tensor.is_complex():
            said = "`{name}`[, made in {made},] is {told}: no decimals, so it has no gradient."
            self._say("whole_numbers", said, told=describe(tensor), made=self.made)
        elif tensor.requires_grad:
            return
        elif cut is not None and cut.how != "values":
            self._cut(cut, f"`{self.name}`")
        elif isinstance(tensor, torch.nn.Parameter):
            self._say("frozen", "`{name}` is a parameter with `requires_grad=False`.")
        else:
            said = "`{name}`[, made in {made},] does not require grad, and has no history."
            self._say("not_flagged", said, made=self.made)

    def _cut(self, cut: Any, subject: str) -> None:
        cause = tell_cut(self.reason, cut, subject)
        self.reason.cause = cause if cause in silences() else "cut_history"

    def _leaf(self) -> None:
        """Whether it keeps a gradient that arrives."""
        node = self.tensor.grad_fn
        if node is not None and not self.tensor.retains_grad:
            said = "`{name}` is no leaf: `{op}` made it[ in {made}]."
            self._say("not_a_leaf", said, op=spoken(node.name()), made=self.log.node(node).site)

    def _arrived(self) -> None:
        """Whether a gradient can arrive, has arrived, and is still there."""
        if self.gradient is not None:
            return
        losses = [self.loss] if self.loss is not None else list(self._losses())
        reached = next((one for one in losses if self._leads_to(one)), None)
        if reached is None and self.passed is None:
            self._unreached(losses)
        else:
            self._waits(reached)

    def _unreached(self, losses: list[torch.Tensor]) -> None:
        """No loss leads to it."""
        first = next(iter(losses), None)
        named, log = self.scene.name(self.loss), self.log
        self._say(
            "unused", "`{name}` is not in {whose}[; `{plain}` has no history at all].",
            whose=f"the graph of `{named}`" if named else "the graph of any loss at hand",
            plain=(self.scene.name(first) or "the loss") if first is not None and first.is_leaf else "",
        )  # fmt: skip
        if not self.watched:
            self.reason.unsure = f"Whether it was not used, or its history ended on the way. {LOOK}"
            return
        cuts = [cut for one in losses for cut in log.cuts_in(nodes_behind(one), self.tensor)]
        cuts += [cut for one in losses if one.grad_fn is None and (cut := log.cut(one)) is not None]
        places = log.cuts_not_followed(self.tensor)
        if cuts:
            self._cut(cuts[0], f"What comes from `{self.name}`")
        elif places:
            self.reason.cause = "cut_history"
            tell_places(self.reason, places)
        else:
            alike = [one for one in leaves_behind(first) if one.shape == self.tensor.shape] if first is not None else []
            if names := self.scene.names(alike):
                self.reason.tell("Of the same shape, and in it: {names}.", names=names)

    def _losses(self) -> Iterator[torch.Tensor]:
        """The single numbers that the user's variables hold, those with a history first."""
        found = [one for one in self.scene.named if one.tensor.numel() == 1 and one.tensor is not self.tensor]
        found = [one for one in found if one.tensor.is_floating_point() and type(one.tensor) is torch.Tensor]
        for one in sorted(found, key=lambda one: (one.tensor.grad_fn is None, "loss" not in one.name)):
            yield one.tensor

    def _leads_to(self, loss: torch.Tensor) -> bool:
        mine = self.tensor.grad_fn
        nodes = nodes_behind(loss)
        return any(getattr(node, "variable", node) is (self.tensor if mine is None else mine) for node in nodes)

    def _waits(self, loss: torch.Tensor | None) -> None:
        """It is part of a graph, and has no gradient: backward was not called, or the gradient was cleared."""
        slots = [slot for node in nodes_behind(loss) for slot in saved_slots(node)] if loss is not None else []
        if self.passed is None and not any(slot.freed for slot in slots):
            self._say(
                "no_backward",
                "`{name}` is in the graph of `{loss}`, and no backward has gone through it[, or {cleared}].",
                loss=self.scene.name(loss) or "loss",
                cleared="" if any(slot.value is not None for slot in slots) else "its gradient was cleared since",
            )
            return
        back = self.passed.site if self.passed is not None else None
        if not self.tensor.is_leaf:
            said = "`{name}`[, made in {made},] was asked to keep its gradient after backward, or it was cleared since."
            self._say("not_a_leaf", said, made=self.made)
            return
        cleared, at = self.log.of(self.tensor, "cleared") or (math.inf, None)
        stepped, step = self.log.of(self.tensor, "stepped") or (0, None)
        if (self.passed.began < stepped < cleared) if step and self.passed is not None else self._has_moved():
            said = "`.grad` is None since it was cleared[ in {cleared}]; a step before that used it."
            self._say(FINE, said, cleared=at)
            return
        late = step if cleared < stepped else None
        said = "A gradient arrived in `{name}`[ in {backward}], and was cleared since[ in {cleared}][, before {step}]."
        self._say("cleared", said, backward=back, cleared=at, step=late)
        if late:
            self.reason.cure = "Clear it after the step, or before `backward()`: the step finds no gradient."

    def _zero(self) -> None:
        """Whether its gradient is zero."""
        if self.gradient is None or bool((self.gradient.detach() != 0).any()):
            return
        edits = self.log.of(self.gradient, "edits") or ()
        losses = [self.loss] if self.loss is not None else [one for one in self._losses() if self._leads_to(one)]
        nodes = list(nodes_behind(losses[0])) if losses else []
        flat = [(cause, node) for cause, (ops, _) in _FLAT.items() for node in nodes if spoken(node.name()) in ops]
        zero = "The gradient of `{name}` is zero"
        if hooks := list((self.tensor._backward_hooks or {}).values()):
            self._say("zero_hook", zero + ", and a hook on it[ in {hook}], has the last word.", hook=line_of(hooks[0]))
        elif edits and edits[-1].name in ("zero_", "fill_"):
            said = zero + " since it was cleared in {cleared}[; {used}]."
            used = "before that, it was used" if self._has_moved() else ""
            self._say(FINE if used else "cleared", said, cleared=edits[-1].site, used=used)
        elif self.gradient._version and not edits:
            self._say("cleared", zero + ", and its memory was written to since it arrived, as `w.grad.zero_()` does.")
            self.reason.unsure = f"Which line wrote to it. {LOOK}"
        elif flat:
            cause, node = flat[0]
            said = zero + ": it comes through `{op}`[ in {zero}], {why}."
            self._say(cause, said, op=spoken(node.name()), zero=self.log.node(node).site, why=_FLAT[cause][1])
        else:
            self._say("zero_gradient", zero + ", though it arrived.")

    def _optimizers(self) -> list[tuple[str, torch.optim.Optimizer, dict[str, Any]]]:
        """Those that have the tensor, and the group that it is in."""
        return [
            (name, one, group) for name, one in self.scene.objects(torch.optim.Optimizer) for group in one.param_groups
            if self._among(group["params"])
        ]  # fmt: skip

    def _among(self, tensors: Iterable[torch.Tensor]) -> bool:
        return any(one is self.tensor for one in tensors)

    def _moves(self) -> None:
        """Whether an optimizer changes it."""
        every, mine = self.scene.objects(torch.optim.Optimizer), self._optimizers()
        if not every or self.gradient is None or not self.tensor.is_leaf:
            return
        if not mine:
            hidden = self._in_plain_list()
            self._say(
                "hidden_in_list" if hidden else "not_in_optimizer",
                "`{name}` has a gradient, and no optimizer has it: {others} has others[. It hangs in `{hidden}`, a"
                " plain Python container, where `parameters()` does not look].",
                others=[name for name, _ in every], hidden=hidden,
            )  # fmt: skip
            return
        name, _, group = mine[0]
        if not float(group["lr"]):
            said = "`{name}` has a gradient, and `{optimizer}` moves it with a learning rate of 0."
            self._say("learning_rate_zero", said, optimizer=name)
        elif self._has_moved() or self.log.of(self.tensor, "stepped"):
            return
        elif self.watched:
            back = self.passed.site if self.passed is not None else None
            said = "`{name}` has a gradient[ of {backward}] and `{optimizer}` has `{name}`, but did not step."
            self._say("no_step", said, optimizer=name, backward=back)
        else:
            self._say(UNKNOWN, "`{name}` has a gradient, and `{optimizer}` has `{name}`.", optimizer=name)
            self.reason.unsure = f"Whether `{name}.step()` ran. {LOOK}"

    def _in_plain_list(self) -> str:
        """The list, tuple or dict of a module that hides the layer whose parameter it is; "" where none does."""
        for name, module in self.scene.objects(torch.nn.Module):
            for path, inner in module.named_modules():
                for attribute, value in vars(inner).items():
                    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
                    layers = [one for one in items if isinstance(one, torch.nn.Module) and attribute not in HELD]
                    if any(self._among(one.parameters()) for one in layers):
                        return ".".join(filter(None, (name, path, attribute)))
        return ""

    def _has_moved(self) -> bool:
        """Whether an optimizer has changed it, as far as that leaves a trace."""
        if self.watched:
            return any(edit.steps for edit in self.log.of(self.tensor, "edits") or ())
        stated = any(self.tensor in one.state and one.state[self.tensor] for _, one, _ in self._optimizers())
        return stated or self.tensor._version > 1
