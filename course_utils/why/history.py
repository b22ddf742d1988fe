"""Why a loss has no history (``no_history``), and why a tensor has no gradient or does not move (``Silence``)."""

import functools
from typing import Any

import torch

from course_utils.base.files import prose
from course_utils.base.text import describe
from course_utils.base.user_code import Site
from course_utils.graph.recorded import leaves_behind, nodes_behind, saved_slots
from course_utils.why.log import Cut, Log, NotFinite, range_of, spoken
from course_utils.why.pages import FINE, LOOK, SILENCES, UNKNOWN, Reason
from course_utils.why.scene import Scene

_FROZEN = "every parameter of {frozen} has `requires_grad=False`"
_UNSEEN = "What Python and NumPy do with numbers and arrays is not seen."


def no_history(scene: Scene, back: Site | None = None) -> Reason:
    """Where the loss lost its history; with the line of its backward, where its flag was raised afterwards."""
    reason = Reason("does_not_require_grad")
    root = next((one for one in scene.roots if back or not one.requires_grad), None)
    subject = f"`{name}`" if (name := scene.name(root)) else "The loss"
    cut = (scene.log.of(root, "cut") if back else scene.log.cut(root)) if root is not None else None
    if cut is not None and cut.how != "values":
        _tell_cut(reason, cut, subject)
    elif not scene.recording:
        reason.cause, reason.unsure = "no_grad_mode", f"Which line switched it off. {LOOK}"
        reason.tell("{subject} has no history, and recording is switched off at this moment.", subject=subject)
    else:
        _left(reason, scene, root, subject, cut)
    reason.tell("{needed:at} calls backward on what is left.", needed=back or scene.here)
    reason.happened = [" ".join(reason.happened)]
    return reason


def _tell_cut(reason: Reason, cut: Cut, subject: str | list[str], whose: str = "") -> None:
    """Says where a history ended, and which line switched recording off."""
    reason.cause, how, reason.cure = (*SILENCES["cuts"][cut.how], "")[:3]
    said = f"{whose}{{subject}} has no history: it ended in {{cut}}. There, {{how}}[: {{switched_off}}, did that]."
    reason.tell(said, subject=subject, cut=cut.site, how=how, switched_off=cut.switch)


def tell_cuts(reason: Reason, scene: Scene, losses: list[torch.Tensor], tensors: list[torch.Tensor]) -> bool:
    """Says where what comes from some tensors lost its history on its way to losses; whether that was seen."""
    log, mine = scene.log, scene.log.numbers_of(tensors)
    leaves = [leaf for loss in losses for leaf in leaves_behind(loss)]
    every: list[Cut | None] = [log.node(node).entered for loss in losses for node in nodes_behind(loss)]
    every += [log.of(leaf, "cut") for leaf in leaves]
    every += [edit.entered for leaf in leaves for edit in (log.of(leaf, "edits") or ())[-1:] if edit.steps]
    cuts = list(dict.fromkeys(cut for cut in every if cut is not None and mine & cut.leaves))
    cuts = cuts or [cut for one in losses if one.grad_fn is None and (cut := log.cut(one)) and cut.how != "values"][:1]
    for cut in [cut for cut in cuts if cut.how == cuts[0].how][:4]:
        lost = scene.names(one for one in tensors if log.numbers_of([one]) & cut.leaves)
        _tell_cut(reason, cut, lost or scene.names(tensors) or ["the tensor"], "What comes from ")
    return bool(cuts)


def tell_places(reason: Reason, log: Log, leaf: torch.Tensor | None = None) -> bool:
    """Names the lines at which a value went on as a number or an array, where a watch cannot follow it, if any."""
    if cuts := log.cuts_not_followed(leaf)[:3]:
        reason.cause, reason.unsure = "cut_history", f"Where the value went from there. {_UNSEEN}"
        reason.tell("In what was watched, a history ended in {cut}.", cut=[cut.site for cut in cuts])
        reason.cure = "".join(SILENCES["cuts"][cuts[0].how][2:])
    return bool(cuts)


def _left(reason: Reason, scene: Scene, root: torch.Tensor | None, subject: str, values: Cut | None) -> None:
    """What the variables show, and the places of which a watch knows no more."""
    modules = [(name, list(module.parameters())) for name, module in scene.objects(torch.nn.Module)]
    frozen = [name for name, ones in modules if ones and not any(one.requires_grad for one in ones)]
    named = [one for one in scene.named if one.tensor is not root]
    watched = root is not None and bool(scene.log.memory(root))
    if named and not any(one.tensor.requires_grad for one in named):
        reason.cause = "frozen" if frozen else "not_flagged"
        said = f"{{subject}} has no history: [{_FROZEN}, and ]nothing at hand requires grad[, neither {{without}}]."
        reason.tell(said, subject=subject, frozen=frozen, without=[] if frozen else [one.name for one in named])
    else:
        said = f"{{subject}} has no history[; of your variables, {{names}} have one][; {_FROZEN}]."
        reason.tell(said, subject=subject, names=[it.name for it in named if it.tensor.grad_fn], frozen=frozen)
        reason.unsure = f"Where it was cut. {_UNSEEN if watched else LOOK}"
        if values is not None:
            reason.cause, _, reason.cure = SILENCES["cuts"]["values"]
            reason.tell("It was computed from a new tensor, made of plain values in {cut}.", cut=values.site)
        if watched:
            tell_places(reason, scene.log)


class Silence:
    """Why a tensor has no gradient, or does not move: asks one question after the other.

    Args:
        loss: what its gradient was expected of; None where any will do.
    """

    def __init__(self, scene: Scene, tensor: torch.Tensor, loss: torch.Tensor | None) -> None:
        self.scene, self.log, self.tensor, self.loss = scene, scene.log, tensor, loss
        self.watched, self.name = bool(scene.log.memory(tensor)), scene.name(tensor) or "the tensor"
        self.gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None  # others warn
        self.reason, self.made, self.passed = Reason(""), scene.log.made(tensor).site, scene.log.passed(tensor)
        self.back = self.passed.site if self.passed is not None else None

    def answer(self) -> Reason:
        """What the first question says that has an answer."""
        reason, grad = self.reason, self.gradient
        for question in (self._flag, self._arrived if grad is None else self._zero, self._moves):
            if not reason.cause:
                question()
        if not reason.cause:
            numbers = range_of(grad) if grad is not None and grad.layout is torch.strided else ""
            self._say(FINE, "`{name}`, {told}, has a gradient[: {of}].", told=describe(self.tensor), of=numbers)
        reason.title = f"Why `{self.name}` {'gets no gradient' if grad is None else 'does not move'}"
        if reason.cause == FINE:
            reason.title, reason.lines = f"Nothing is seen to be wrong with `{self.name}`", []
        return reason

    def _say(self, cause: str, text: str, unsure: str = "", **known: Any) -> None:
        self.reason.cause, self.reason.unsure = cause, unsure and f"{unsure} {LOOK}"
        self.reason.tell(text, name=self.name, **known)

    def _flag(self) -> None:
        """Whether it can have a gradient, asks for one, and keeps it."""
        tensor, node, cut, name = self.tensor, self.tensor.grad_fn, self.log.cut(self.tensor), self.name
        if not tensor.is_floating_point() and not tensor.is_complex():
            said = "`{name}`[, made in {made},] is {told}: no decimals, so it has no gradient."
            self._say("whole_numbers", said, told=describe(tensor), made=self.made)
        elif node is not None and not tensor.retains_grad:
            made, op, of = self.log.node(node).site, spoken(node.name()), self.scene.names(leaves_behind(tensor))
            said = "`{name}` is no leaf: `{op}` made it[ in {made}][, of {leaf}, which is one]."
            self._say("not_a_leaf", said, op=op, made=made, leaf=of if len(of) == 1 else [])
        elif tensor.is_leaf and tensor._base is not None and tensor._base.requires_grad:
            said = "`{name}` is a view, made while recording was off[ in {made}], and has no history."
            self._say("no_grad_mode", said, made=self.made)
            self.reason.cure = f"Make a leaf of its own of it: `{name} = {name}.detach().clone().requires_grad_()`."
        elif tensor.requires_grad:
            return
        elif cut is not None and (cut.how != "values" or self.log.cuts_not_followed()):  # else a flag may be wanted
            _tell_cut(self.reason, cut, f"`{name}`")
        elif isinstance(tensor, torch.nn.Parameter):
            self._say("frozen", "`{name}` is a parameter with `requires_grad=False`.")
        else:
            unsure = "" if self.watched else "Whether it had a history, and where that ended."
            self._say("not_flagged", "`{name}`[, made in {made},] does not require grad.", unsure, made=self.made)

    @functools.cached_property
    def losses(self) -> list[torch.Tensor]:
        """The loss; or the single numbers that the user's variables hold, those with a history first."""
        found = [one for one in self.scene.named if one.tensor.numel() == 1 and type(one.tensor) is torch.Tensor]
        found.sort(key=lambda one: (one.tensor.grad_fn is None, "loss" not in one.name))
        others = [one.tensor for one in found if one.tensor is not self.tensor and one.tensor.is_floating_point()]
        return others if self.loss is None else [self.loss]

    def _arrived(self) -> None:
        """Whether a gradient can arrive, has arrived, and is still there."""
        ends = ((loss, getattr(node, "variable", node)) for loss in self.losses for node in nodes_behind(loss))
        loss = next((loss for loss, end in ends if end is self.tensor or end is self.tensor.grad_fn), None)
        slots = [slot for node in nodes_behind(loss) for slot in saved_slots(node)] if loss is not None else []
        if loss is None and self.passed is None:
            self.unreached()
        elif self.passed is None and not any(slot.freed for slot in slots):
            said = "`{name}` is in the graph of `{loss}`, and no backward has gone through it[, or {cleared}]."
            unclear = "" if any(slot.value is not None for slot in slots) else "its gradient was cleared since"
            self._say("no_backward", said, loss=self.scene.name(loss) or "loss", cleared=unclear)
            ended = [cut.site for cut in self.log.cuts_not_followed(next(iter(leaves_behind(self.tensor)), None))]
            self.reason.tell("[Without its history, a value went on in {cut}.]", cut=ended if self.log.passes else [])
        elif not self.tensor.is_leaf:
            said = "`{name}`[, made in {made},] was asked to keep its gradient after backward, or it was cleared since."
            self._say("not_a_leaf", said, made=self.made)
        elif self._has_moved():
            self._say(FINE, "`.grad` is None since it was cleared; before, steps used it.")
        elif self.passed is not None and self.log.numbers_of([self.tensor]) & self.passed.filled:
            self._say("cleared", "A gradient came to `{name}` in {backward} and was cleared.", backward=self.back)
        else:
            said = "`{name}` has none, though a backward went through its graph[ in {backward}]: [{cleared}, ]"
            said += "a Function returned None for it, or `torch.autograd.grad` fills no `.grad`."
            unsure, cleared = ("", "") if self.passed else ("Which of these.", "it was cleared since")
            self._say("not_kept", said, unsure, backward=self.back, cleared=cleared)

    def unreached(self) -> Reason:
        """No loss leads to it."""
        reason, log, losses, one = self.reason, self.log, self.losses, self.tensor
        of = f"the graph of `{named}`" if (named := self.scene.name(self.loss)) else "the graph of any loss at hand"
        plain = (self.scene.name(losses[0]) or "the loss") if losses and losses[0].is_leaf else ""
        unsure = "" if self.watched else "Whether it was not used, or its history ended on the way."
        self._say("not_in_graph", "`{name}` is not in {of}[; `{plain}` has no history].", unsure, of=of, plain=plain)
        if not self.watched or tell_cuts(reason, self.scene, losses, [one]) or tell_places(reason, log, one):
            return reason
        new = [leaf for loss in losses for leaf in leaves_behind(loss) if not self.scene.name(leaf)]
        if cuts := [cut for leaf in new if (cut := log.of(leaf, "cut")) is not None and cut.how == "values"]:
            _tell_cut(reason, cuts[0], "The loss leads to a tensor that")
        else:
            said, used = "It was used in {used}, and the loss does not come from that.", log.of(one, "used")
            reason.tell(said if used else "In what was watched, nothing was recorded from it.", used=used)
        return reason

    def _zero(self) -> None:
        """Whether its gradient is zero."""
        if self.gradient is None or bool((self.gradient.detach() != 0).any()):
            return
        edits, zero = self.log.of(self.gradient, "edits"), "The gradient of `{name}` is zero"
        if edits and edits[-1].name in ("zero_", "fill_"):
            used = "before that, it was used" if self._has_moved() else ""
            said = zero + " since it was cleared in {cleared}[; {used}]."
            self._say(FINE if used else "cleared", said, cleared=edits[-1].site, used=used)
        elif self.gradient._version and not edits:
            said = zero + ", and it was written to since it arrived, as another backward or `w.grad.zero_()` does."
            self._say(UNKNOWN, said, "Whether it came so, or was cleared.")
        else:
            bad = self.log.of(self.gradient, "bad") or NotFinite()
            said = ", though it arrived.[ It became so in the backward of `{op}`, {zeroed}[, which kept {numbers}].]"
            known = {"op": spoken(bad.name), "zeroed": bad.site, "numbers": ", ".join(bad.inputs)}
            self._say("zero_gradient", zero + said, "Where it became so." * (not bad.name), **known)

    def _moves(self) -> None:
        """Whether an optimizer changes it."""
        if not self.scene.groups or self.gradient is None or not self.tensor.is_leaf:
            return
        mine = [found for found in self.scene.groups if any(one is self.tensor for one in found[2]["params"])]
        name, _, group = mine[0] if mine else ("", None, {})
        if not name:
            given = (one for _, _, group in self.scene.groups for one in group["params"])
            alike = self.scene.names(one for one in given if one.shape == self.tensor.shape)
            twin = [it for it in alike if it.endswith("." + self.name.partition(".")[2])][:1]  # in a copy of its module
            said = "`{name}`[, made in {made},] has a gradient, and is not in {others}[, which has {twin}{same}]."
            others = [*dict.fromkeys(name for name, _, _ in self.scene.groups)]
            self._say("not_in_optimizer", said, others=others, twin=twin, same=", of the same shape", made=self.made)
            self.reason.cure = prose(SILENCES["not_in_optimizer"]["of_a_copy"]) if twin else ""
        elif not float(group["lr"]):
            self._say("learning_rate_zero", "`{optimizer}` moves `{name}` with a learning rate of 0.", optimizer=name)
        elif not self._has_moved():
            said = "`{name}` has a gradient[ of {backward}] and `{optimizer}` has `{name}`[, but {did}]."
            did = "no step has moved it" if self.watched else ""
            unsure = "" if did else f"Whether `{name}.step()` ran."
            self._say("no_step" if did else UNKNOWN, said, unsure, optimizer=name, backward=self.back, did=did)

    def _has_moved(self) -> bool:
        """Whether an optimizer has changed it, as far as that leaves a trace."""
        if self.watched:
            return any(edit.steps for edit in self.log.of(self.tensor, "edits") or ())
        return self.tensor._version > 1 or any(one.state.get(self.tensor) for _, one, _ in self.scene.groups)
