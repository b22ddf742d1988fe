"""The control panel: ways to say no to autograd, and some that only look like one, side by side, each fact found out
by running it (``control_panel``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.document import Block, Shown
from course_utils.base.markup import GREY, Html, element, prose, wrap
from course_utils.base.text import format_bytes
from course_utils.base.words import aligned
from course_utils.catalogue import find
from course_utils.memory import MemoryTracker

# Name, the lines that are run, what it is for, the lesson that is about it. The lines find `torch`, `encoder`, `images`
# and `keep`, a forward hook that keeps a layer's output, and leave `features`.
_CONTROLS = (
    ("no control", "features = encoder(images)", "training", "requires_grad"),
    (
        "no_grad",
        "with torch.no_grad():\n    features = encoder(images)",
        "evaluating; writing to weights",
        "no_grad",
    ),
    (
        "inference_mode",
        "with torch.inference_mode():\n    features = encoder(images)",
        "serving, where nobody trains on the result",
        "no_grad",
    ),
    (
        "detach()",
        "output = encoder(images)\nfeatures = output.detach()",
        "stopping the gradient at one place; keeping a result, not its graph",
        "detach",
    ),
    (
        ".data",
        "output = encoder(images)\nfeatures = output.data",
        "reading old code; write `detach()` in its place",
        "detach",
    ),
    (
        "lowered flags",
        "encoder.requires_grad_(False)\nfeatures = encoder(images)",
        "freezing a part that the gradient still has to pass",
        "requires_grad",
    ),
    (
        "lowered flags, plain images",
        "images.requires_grad_(False)\nencoder.requires_grad_(False)\nfeatures = encoder(images)",
        "freezing the first layers, which then record nothing",
        "requires_grad",
    ),
    (
        "eval()",
        "encoder.eval()\nfeatures = encoder(images)",
        "dropout and batch norm; autograd does not read it",
        "no_grad",
    ),
    (
        "a forward hook",
        "encoder.register_forward_hook(keep)\nfeatures = encoder(images)",
        "reading or replacing an output; detach what you keep",
        "forward_hooks",
    ),
    (
        "a tensor hook",
        "features = encoder(images)\nfeatures.register_hook(torch.zeros_like)",
        "reading or changing a gradient on its way",
        "forward_hooks",
    ),
    ("a skipped branch", "features = torch.zeros(16, 32)", "spending nothing on what is not needed", "gated_branches"),
)
_HEADINGS = (
    "control",
    "the encoder runs",
    "it is recorded",
    "a gradient reaches the images",
    "`.grad` is filled in",
    "kept for backward",
    "the head may save it",
    "an edit in place is noticed",
    "use it for",
)
_NEITHER = "—"
_NOTE = "Kept: when the head has run, parameters and images left out. —: does not arise."
_CELL = f"padding:0.3em 0.8em 0.3em 0;text-align:left;vertical-align:top;border-bottom:1px solid {GREY}"


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
        """The table."""
        heads = [element("th", prose(heading), scope="col", style=_CELL) for heading in _HEADINGS]
        rows = [element("tr", *_row(control)) for control in self.controls]
        parts = [element("thead", element("tr", *heads)), element("tbody", Html("\n".join(rows)))]
        table = element("table", Html("\n".join(parts)), style="margin:0.3em 0;border-collapse:collapse")
        return Block(
            Html("\n".join([table, element("p", _NOTE, style="margin:0.3em 0")])),
            lambda indent: "\n\n".join([*(_in_words(control, indent) for control in self.controls), indent + _NOTE]),
        )


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
        kept_bytes = _Trial(code).kept_bytes()
        edit_is_noticed = _Trial(code).edit_is_noticed()
        backward = _Trial(code)
        may_be_saved = backward.goes_forward_and_back()
        return Control(
            name=name,
            code=code,
            runs=backward.outputs != [],
            recorded=any(output.grad_fn is not None for output in backward.outputs),
            reaches_images=backward.reaches_images(),
            filled=backward.filled(),
            kept_bytes=kept_bytes,
            may_be_saved=may_be_saved,
            edit_is_noticed=edit_is_noticed,
            use=use,
            lesson=lesson,
        )


class _Trial:
    """Lines of code in surroundings of their own: the same encoder, head and images each time."""

    def __init__(self, code: str) -> None:
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.head = nn.Linear(32, 1)
        self.images = torch.randn(16, 32, requires_grad=True)
        self.code = code
        self.kept: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def features(self) -> Tensor:
        def keep(module: nn.Module, args: object, output: Tensor) -> None:
            self.kept.append(output)

        names: dict[str, Any] = {"torch": torch, "encoder": self.encoder, "images": self.images, "keep": keep}
        exec(self.code, names)
        return names["features"]

    def watch(self) -> None:
        self.encoder.register_forward_hook(lambda module, args, output: self.outputs.append(output))

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
            kept = memory.current
        return None if loss is None else kept - loss.untyped_storage().nbytes()

    def goes_forward_and_back(self) -> bool:
        self.watch()
        loss = self.loss()
        if loss is not None:
            loss.backward()
        return loss is not None

    def reaches_images(self) -> str:
        gradient = self.images.grad
        return "no" if gradient is None else "yes" if gradient.any() else "zeros"

    def filled(self) -> tuple[str, ...]:
        owners = {"images": [self.images], "encoder": self.encoder.parameters(), "head": self.head.parameters()}
        return tuple(name for name, tensors in owners.items() if any(tensor.grad is not None for tensor in tensors))

    def edit_is_noticed(self) -> bool | None:
        self.watch()
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


def _row(control: Control) -> Sequence[Html]:
    lines = Html("<br>").join(
        element("code", line, style="white-space:pre;font-size:0.9em") for line in control.code.splitlines()
    )
    lesson = find(control.lesson)
    link = element("a", f"lesson {lesson.number:02d}", href=f"{lesson.notebook}.ipynb")
    first = [element("strong", control.name), " (", link, ")", Html("<br>"), Html(lines)]
    return [
        element("th", *first, scope="row", style=_CELL + ";font-weight:normal"),
        *(element("td", fact, style=_CELL) for fact in control.facts),
        element("td", prose(control.use), style=_CELL + ";min-width:13em"),
    ]


def _in_words(control: Control, indent: str) -> str:
    facts = [(heading.replace("`", ""), fact) for heading, fact in zip(_HEADINGS[1:-1], control.facts, strict=True)]
    lines = [f"{control.name} (lesson {find(control.lesson).number:02d}): {control.use}".replace("`", "")]
    lines += [f"  | {line}" for line in control.code.splitlines()]
    lines += [f"  {line}" for line in aligned(facts).splitlines()]
    return "\n".join(wrap(line, indent, indent + "  ") if line == lines[0] else indent + line for line in lines)
