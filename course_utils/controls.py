"""The control panel: ways to say no to autograd, and some that only look like one, side by side, each fact found out
by running it (``control_panel``); and eval mode, which is none, for the length of a block (``evaluating``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.document import Block, Shown, group, paragraph, rows, table, typed
from course_utils.base.markup import Html, element, prose
from course_utils.base.text import format_bytes
from course_utils.catalogue import find
from course_utils.memory import MemoryTracker

_RUN = "features = encoder(images)"
# Name, the lines that are run, what it is for, the lesson that is about it. The lines find `torch`, `encoder`, `images`
# and `keep`, a forward hook that keeps a layer's output, and leave `features`.
# fmt: off
_CONTROLS = (
    ("no control", _RUN, "training", "requires_grad"),
    ("no_grad", f"with torch.no_grad():\n    {_RUN}", "evaluating; writing to weights", "no_grad"),
    ("inference_mode", f"with torch.inference_mode():\n    {_RUN}",
     "serving, where nobody trains on the result", "no_grad"),
    ("detach()", "output = encoder(images)\nfeatures = output.detach()",
     "stopping the gradient at one place; keeping a result, not its graph", "detach"),
    (".data", "output = encoder(images)\nfeatures = output.data",
     "reading old code; write `detach()` in its place", "detach"),
    ("lowered flags", f"encoder.requires_grad_(False)\n{_RUN}",
     "freezing a part that the gradient still has to pass", "requires_grad"),
    ("lowered flags, plain images", f"images.requires_grad_(False)\nencoder.requires_grad_(False)\n{_RUN}",
     "freezing the first layers, which then record nothing", "requires_grad"),
    ("eval()", f"encoder.eval()\n{_RUN}", "dropout and batch norm; autograd does not read it", "no_grad"),
    ("a forward hook", f"encoder.register_forward_hook(keep)\n{_RUN}",
     "reading or replacing an output; detach what you keep", "forward_hooks"),
    ("a tensor hook", f"{_RUN}\nfeatures.register_hook(torch.zeros_like)",
     "reading or changing a gradient on its way", "forward_hooks"),
    ("a skipped branch", "features = torch.zeros(16, 32)", "spending nothing on what is not needed", "gated_branches"),
)
# fmt: on
_HEADINGS = (
    *("control", "the encoder runs", "it is recorded", "a gradient reaches the images", "`.grad` is filled in"),
    *("kept for backward", "the head may save it", "an edit in place is noticed", "use it for"),
)
_NEITHER = "—"
_NOTE = "Kept: when the head has run, parameters and images left out. —: does not arise."
_WRAPPED = "white-space:normal"


@dataclass(frozen=True)
class Control:
    """One way to control what autograd does, and what was seen when it ran.

    Attributes:
        name: what it is called.
        code: the lines that were run.
        runs: whether the encoder computed anything.
        recorded: whether the encoder's result has a history.
        reaches_images: whether a gradient came to the images: "yes", "no", or "zeros".
        filled: those of images, encoder and head whose ``.grad`` backward has filled in.
        kept_bytes: what tensors hold between forward and backward, beside parameters and images; None where it does not
            come to a loss.
        may_be_saved: whether a layer that learns may save the result for its backward.
        edit_is_noticed: whether backward raises after the result was written to in place; None where there is nothing
            for it to go back through.
        use: what it is for.
        lesson: the name of the lesson that is about it.
    """

    name: str
    code: str
    runs: bool
    recorded: bool
    reaches_images: str
    filled: tuple[str, ...]
    kept_bytes: int | None
    may_be_saved: bool
    edit_is_noticed: bool | None
    use: str
    lesson: str

    @property
    def facts(self) -> tuple[str, ...]:
        """What was seen, as text, in the order of the table's columns."""
        return (
            _yes(self.runs),
            _yes(self.recorded),
            self.reaches_images,
            ", ".join(self.filled) or "none",
            _NEITHER if self.kept_bytes is None else format_bytes(self.kept_bytes),
            "yes" if self.may_be_saved else "no: an error",
            _NEITHER if self.edit_is_noticed is None else _yes(self.edit_is_noticed),
        )


@dataclass(frozen=True, repr=False)
class ControlPanel(Shown):
    """The controls side by side: a table in a notebook, one after the other as text.

    Attributes:
        controls: from the top of the table to its bottom.
    """

    controls: tuple[Control, ...]

    def card(self) -> Block:
        """The table, and the same in words."""
        headings = [element("div", prose(heading), style=_WRAPPED) for heading in _HEADINGS]
        cells = [[(cell, "") for cell in _row(control)] for control in self.controls]
        words = [_in_words(control) for control in self.controls] + [paragraph(_NOTE)]
        shown = table("Ways to say no to autograd, each as it ran", headings, cells, [_NOTE])
        return shown._replace(text=lambda indent: "\n\n".join(block.text(indent) for block in words))


def control_panel() -> ControlPanel:
    """Ways to say no to autograd, and some that only look like one: what each records, lets pass, fills in and keeps.

    Only the last column is written by hand. For the others each row runs its lines, with an encoder, a head behind it
    (``head(features)``) and 16 images that require grad, and goes backward from the sum.

    Returns:
        The table, which shows itself as the last line of a cell.

    Example:
        >>> rows = {control.name: control for control in control_panel().controls}
        >>> rows["no_grad"].recorded, rows["no_grad"].filled
        (False, ('head',))
    """
    return ControlPanel(tuple(_tried(*control) for control in _CONTROLS))


def _tried(name: str, code: str, use: str, lesson: str) -> Control:
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        kept_bytes, edit_is_noticed, trial = _Trial(code).kept_bytes(), _Trial(code).edit_is_noticed(), _Trial(code)
        loss = trial.loss()
        if loss is not None:
            loss.backward()
        return Control(
            name=name,
            code=code,
            runs=trial.outputs != [],
            recorded=any(output.grad_fn is not None for output in trial.outputs),
            reaches_images=trial.reaches_images(),
            filled=trial.filled(),
            kept_bytes=kept_bytes,
            may_be_saved=loss is not None,
            edit_is_noticed=edit_is_noticed,
            use=use,
            lesson=lesson,
        )


class _Trial:
    """Lines of code in surroundings of their own: the same encoder, head and images each time."""

    def __init__(self, code: str) -> None:
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.head, self.images = nn.Linear(32, 1), torch.randn(16, 32, requires_grad=True)
        self.code, self.outputs, self.kept = code, list[Tensor](), list[Tensor]()
        self.encoder.register_forward_hook(lambda module, args, output: self.outputs.append(output))

    def features(self) -> Tensor:
        names: dict[str, Any] = {"torch": torch, "encoder": self.encoder, "images": self.images}
        names["keep"] = lambda module, args, output: self.kept.append(output)
        exec(self.code, names)
        return names["features"]

    def loss(self) -> Tensor | None:
        """The head's answer as one number; None where it may not save what it is given."""
        features = self.features()
        try:
            return self.head(features).sum()
        except RuntimeError as error:
            if "saved for backward" not in str(error):
                raise
            return None

    def kept_bytes(self) -> int | None:
        with MemoryTracker(self.encoder, self.head, self.images) as memory:
            loss = self.loss()
            self.outputs.clear()
            kept = memory.current
        return None if loss is None else kept - loss.untyped_storage().nbytes()

    def reaches_images(self) -> str:
        gradient = self.images.grad
        return "no" if gradient is None else "yes" if gradient.any() else "zeros"

    def filled(self) -> tuple[str, ...]:
        owners = {"images": [self.images], "encoder": self.encoder.parameters(), "head": self.head.parameters()}
        return tuple(name for name, tensors in owners.items() if any(tensor.grad is not None for tensor in tensors))

    def edit_is_noticed(self) -> bool | None:
        features = self.features()
        (output,) = self.outputs or [features]
        if output.grad_fn is None:
            return None
        with torch.no_grad():
            features.zero_()
        try:
            output.sum().backward()
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            return True
        return False


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _row(control: Control) -> list[Html]:
    lesson = find(control.lesson)
    link = element("a", f"lesson {lesson.number:02d}", href=f"{lesson.notebook}.ipynb")
    lines = [element("div", element("code", line, style="white-space:pre")) for line in control.code.splitlines()]
    first = element("div", element("strong", control.name), " (", link, ")", *lines)
    return [first, *map(prose, control.facts), element("div", prose(control.use), style=f"{_WRAPPED};min-width:13em")]


def _in_words(control: Control) -> Block:
    facts = [(heading.replace("`", ""), fact) for heading, fact in zip(_HEADINGS[1:-1], control.facts, strict=True)]
    name = f"{control.name} (lesson {find(control.lesson).number:02d}): {control.use}"
    return group(paragraph(name.replace("`", "")), [typed(control.code), rows(facts)])


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Within the block the model is in eval mode; after it every module has its own training flag again.

    Also after an error, which goes on to the caller. Grad mode is another switch, and stays as it is.

    Args:
        model: a module with all its submodules, some of which may have been in eval mode before.

    Returns:
        A context manager that gives the model.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3).eval())
        >>> with evaluating(model):
        ...     model[0].training
        False
        >>> model[0].training, model[1].training
        (True, False)
    """
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield model
    finally:
        for module, flag in flags.items():
            module.training = flag
