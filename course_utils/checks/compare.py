"""Claims that compare: what an answer does is held against what the course's own answer does on the same inputs.

An exercise's text file has the model ``answer`` and, for each misconception, ways to make that mistake in it
(``wrong``: pairs of an old and a new text). A claim only *looks*: it draws inputs, calls the answer, and gives what it
saw, by name. The judge lets it look at the model answer as well. Where the two differ, it lets it look at the mistakes:
one that was seen to do what the learner's answer did is the diagnosis. The same edits are the proofs, so that no wrong
answer is written twice.
"""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_utils.base.text import describe, message_of
from course_utils.checks.claims import numbers_apart, same
from course_utils.checks.draws import new_seed
from course_utils.checks.exercise import Exercise, read_fields
from course_utils.checks.missed import AnswerRaised as AnswerRaised
from course_utils.checks.missed import Missed as Missed
from course_utils.checks.missed import NotAttempted
from course_utils.checks.state import LeftBehind
from course_utils.checks.trial import Trial as Trial

# What a look gives: what it saw, by the words that a card uses for it. Who calls the answer several times yields the
# pairs one by one, so that the card shows the call of which each was seen.
Seen = Mapping[str, Any] | Iterable[tuple[str, Any]]
Look = Callable[[Trial], Seen]


@dataclass(frozen=True)
class AtMost:
    """A number of which an answer may have less than the model: bytes, calls, FLOPs."""

    number: float


@dataclass(frozen=True)
class Raised:
    """An error. It is right if it is of the model's kind, and the same mistake if it says the same."""

    kind: type[BaseException]
    message: str


def outcome(call: Callable[[], Any]) -> Any:
    """What a call of the answer gives: its value, or the error that it raises (``Raised``)."""
    try:
        return call()
    except AnswerRaised as raised:
        return Raised(type(raised.error), message_of(raised.error, 60))


@dataclass
class _View:
    """What one look saw of one answer: pieces by name, the call that each was seen of, and what ended it early.

    A name that comes several times, for several inputs, is told apart by how often it came before.
    """

    pieces: dict[tuple[str, int], Any] = field(default_factory=dict)
    calls: dict[tuple[str, int], str] = field(default_factory=dict)
    error: Exception | None = None

    def add(self, name: str, value: Any, call: str) -> None:
        at = name, sum(other == name for other, _ in self.pieces)
        self.pieces[at], self.calls[at] = value, call


_ABSENT = object()  # in place of a piece that a look did not come to


@dataclass
class Compared(Exercise):
    """An exercise with a model answer and mistakes in it.

    Attributes:
        ways: for each mistake the key of its misconception and its edits: old text, new text, old, new ...; or a whole
            answer alone.
        names: what the answers may use beside torch, nn and F.
    """

    ways: Sequence[tuple[str, Sequence[str]]] = ()
    names: Mapping[str, Any] = field(default_factory=dict)
    _looks: list[Look] = field(default_factory=list, repr=False)

    @cached_property
    def model(self) -> Any:
        """The course's own answer."""
        return self._made(self.source, self.name)

    @cached_property
    def mistakes(self) -> list[tuple[str, Any]]:
        """The known wrong answers, each with the key of its misconception, in the order of the text file."""
        named = [(key, f"{self.name}, {key!r}", edits) for key, edits in self.ways]
        return [(key, self._made(edited(self.source, edits, what), what)) for key, what, edits in named]

    def _made(self, source: str, what: str) -> Any:
        space = {"__name__": "model", "torch": torch, "nn": torch.nn, "F": torch.nn.functional, **self.names}
        exec(compile(source, f"<{what}>", "exec"), space)
        return space[self.name]

    def looks(
        self, text: str, key: str = "", *, weight: float = 1.0, gate: bool = False
    ) -> Callable[[Look], Callable[[Look], Look] | Look]:
        """Adds a claim: a decorator for a function that looks at an answer, and gives what it saw.

        Args:
            text, weight, gate: see ``Rule``.
            key: the misconception where the answer did what no known mistake does.
        """

        def add(look: Look) -> Look:
            self._looks.append(look)
            self.claim(text, weight=weight, gate=gate)(lambda trial: self._compare(trial, look, key))
            return look

        return add

    def _compare(self, trial: Trial, look: Look, key: str) -> None:
        seed = new_seed()
        got, right = look_at(look, trial, seed), self._view(look, self.model, seed)
        if right.error:  # the look itself is broken: two answers that cannot be judged are not alike
            raise right.error
        apart = next((at for at in [*got.pieces, *right.pieces] if not _do_agree(at, got, right)), None)
        if apart is None:
            return
        found = self._diagnosis(trial.answer, look, seed, got, right, apart)
        if isinstance(got.error, AnswerRaised) and not found:
            raise got.error  # the text file may know what it says
        trial.called = got.calls.get(apart, trial.called)
        raise Missed(
            found or key, **shown(apart[0], got.pieces.get(apart, _ABSENT), right.pieces.get(apart, _ABSENT), got)
        )

    def key_of(self, effects: Sequence[str]) -> str:
        """The misconception of the first mistake that changes what the answer was seen to change."""
        return next((key for key, mistake in self.mistakes if set(effects) <= set(self._effects(mistake))), "")

    def _effects(self, mistake: Any) -> list[str]:
        trials = [Trial(mistake, self.name) for _ in self._looks]
        for look, trial in zip(self._looks, trials, strict=True):
            with _quietly(), contextlib.suppress(Missed, LeftBehind):
                look_at(look, trial, new_seed())
        return [effect for trial in trials for effect in trial.effects]

    def _view(self, look: Look, answer: Any, seed: int) -> _View:
        """What a look sees of the model, or of a mistake."""
        try:
            with _quietly():
                return look_at(look, Trial(answer, self.name), seed)
        except (Missed, LeftBehind):
            return _View()

    def _diagnosis(self, answer: Any, look: Look, seed: int, got: _View, right: _View, apart: tuple[str, int]) -> str:
        """The key of the mistake that does what the answer did where it first differs, and as much as possible else."""

        def likeness(one: _View, other: _View) -> int:
            return sum(alike(other.pieces.get(at, _ABSENT), value) for at, value in one.pieces.items())

        found: list[tuple[int, str, Any]] = []
        for key, mistake in self.mistakes:
            view = self._view(look, mistake, seed)
            piece = view.pieces.get(apart, _ABSENT)
            if not _do_agree(apart, view, right) and alike(piece, got.pieces.get(apart, _ABSENT)):
                found.append((likeness(got, view), key, mistake))
        best = [(key, mistake) for count, key, mistake in found if count == max(found, key=lambda one: one[0])[0]]
        if len({key for key, _ in best}) > 1:  # several do: the one that is most like the answer in all claims
            mine = [self._view(each, answer, seed) for each in self._looks]
            best.sort(
                key=lambda one: (
                    -sum(
                        likeness(view, self._view(each, one[1], seed))
                        for each, view in zip(self._looks, mine, strict=True)
                    )
                )
            )
        return best[0][0] if best else ""


def compared(file: str, **names: Any) -> Compared:
    """An exercise that has no claims yet, from the text file beside its module.

    Args:
        file: the module's ``__file__``.
        names: what its answers may use beside torch, nn and F.

    Raises:
        ValueError: the text file has a field that is unknown, lacks one, or is no TOML.
    """
    fields = read_fields(file, {"points", "hints", "answer", "misconceptions"}, {"raises", "remark"})
    ways = [(key, edits) for key, known in fields["misconceptions"].items() for edits in known.wrong]
    return Compared(Path(file).stem, ways=ways, names=names, **fields)


def edited(source: str, edits: Sequence[str], what: str) -> str:
    """The model answer with a mistake in it.

    Raises:
        ValueError: the model answer has no such text.
    """
    if len(edits) == 1:
        return edits[0]
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        if old not in source:
            raise ValueError(f"{what}: the model answer has no {old!r}.")
        source = source.replace(old, new)
    return source


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """A mistake may warn, and that is no affair of the learner's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def look_at(look: Look, trial: Trial, seed: int) -> _View:
    """What a look sees of an answer, on the inputs that the seed gives."""
    trial.draw_from(seed)
    view = _View()
    try:
        pairs = look(trial)
        for name, value in pairs.items() if isinstance(pairs, Mapping) else pairs:
            view.add(name, value, trial.called)
    except AnswerRaised as error:
        view.error, view.pieces["raised", 0] = error, Raised(type(error.error), message_of(error.error, 60))
    except (Missed, NotAttempted, LeftBehind):
        raise
    except Exception as error:  # it could make nothing of what came back: a number has no flag, for example
        view.error, view.pieces["could not be judged", 0] = error, Raised(type(error), message_of(error, 60))
    return view


def _do_agree(at: tuple[str, int], got: _View, right: _View) -> bool:
    return (at in got.pieces) == (at in right.pieces) and agree(got.pieces.get(at), right.pieces.get(at))


def agree(got: Any, right: Any) -> bool:
    """Whether what was seen of an answer will do.

    Args:
        got: what was seen of the answer: containers are gone through; tensors and fractions agree within a tolerance,
            whatever their dtype, errors if theirs is of the right one's kind, and all else exactly.
        right: the same of the model answer.
    """
    if isinstance(right, Raised):
        return isinstance(got, Raised) and issubclass(got.kind, right.kind)
    if isinstance(right, AtMost):
        return isinstance(got, AtMost) and got.number <= right.number
    return _match(got, right, agree)


def alike(one: Any, other: Any) -> bool:
    """Whether two mistakes show in the same way: numbers of bytes or calls within a tenth, errors by what they say, all
    else as in ``agree``."""
    if isinstance(one, Raised) or isinstance(other, Raised):
        return one == other
    if isinstance(one, AtMost) and isinstance(other, AtMost):
        return abs(one.number - other.number) <= 0.1 * max(abs(one.number), abs(other.number))
    return _match(one, other, alike)


def _match(one: Any, other: Any, test: Callable[[Any, Any], bool]) -> bool:
    if isinstance(other, Tensor):
        return isinstance(one, Tensor) and same(one, other)
    if isinstance(other, float):
        is_number = isinstance(one, (int, float)) and not isinstance(one, bool)
        both_nan = is_number and math.isnan(one) and math.isnan(other)
        return both_nan or (is_number and math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6))
    if isinstance(other, Mapping):
        return (
            isinstance(one, Mapping) and one.keys() == other.keys() and all(test(one[key], other[key]) for key in other)
        )
    if isinstance(other, (list, tuple)):
        return isinstance(one, (list, tuple)) and len(one) == len(other) and all(map(test, one, other))
    return type(one) is type(other) and bool(one == other)


def shown(name: str, got: Any, right: Any, view: _View) -> dict[str, str]:
    """The lines of a card: what was expected, and what came.

    Args:
        name: what was looked at.
        got: what was seen of the answer there.
        right: the same of the model answer.
        view: the look that saw it; what ended it early is told instead.
    """
    if got is _ABSENT or right is _ABSENT:
        error = view.error
        if not isinstance(error, AnswerRaised):
            return {"could_not_be_judged": message_of(error or "", 120)}
        return {"raised": message_of(error.error)} | ({"in": error.where} if error.where else {})
    if isinstance(right, Mapping) and isinstance(got, Mapping) and right.keys() == got.keys():
        key = next(key for key in right if not agree(got[key], right[key]))
        return shown(f"{name}, {key}", got[key], right[key], view)
    if isinstance(right, (list, tuple)) and isinstance(got, (list, tuple)) and len(right) == len(got):
        at = next(index for index, pair in enumerate(zip(got, right, strict=True)) if not agree(*pair))
        return shown(f"{name}, {at + 1} of {len(right)}" if len(right) > 1 else name, got[at], right[at], view)
    if isinstance(right, Tensor) and isinstance(got, Tensor) and right.shape == got.shape:
        expected, number = numbers_apart(got, right)
        return {"expected": f"{name}: {expected}", "got": number + _times(got, right)}
    most = "at most " * isinstance(right, AtMost)
    return {"expected": f"{name}: {most}{_words(right)}", "got": _words(got)}


def _times(got: Tensor, right: Tensor) -> str:
    """What an answer's tensor is to the right one, if it is a multiple: ``", 0.333 times that"``."""
    one, other = got.detach().double(), right.detach().double()
    factor = ((one * other).sum() / other.square().sum()).item() if other.numel() else math.nan
    return f", {factor:.3g} times that" if factor and math.isfinite(factor) and same(one, factor * other) else ""


def _words(value: Any) -> str:
    if isinstance(value, AtMost):
        return f"{value.number:,.0f}"
    if isinstance(value, Raised):
        return value.message if value.message.startswith(value.kind.__name__) else value.kind.__name__
    if isinstance(value, Tensor) and value.dim():
        return f"shape {tuple(value.shape)}"
    return value if isinstance(value, str) else describe(value)
