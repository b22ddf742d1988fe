"""Claims that compare: what an answer does is held against what the course's own answer does on the same inputs. An
exercise's module gets from here all that it needs of this room.

An exercise's text file has the model ``answer`` and, for each misconception, ways to make that mistake in it
(``wrong``: pairs of an old and a new text). A claim only *looks*: it draws inputs, calls the answer, and gives what it
saw, by name. The judge lets it look at the model answer as well. Where the two differ, it lets it look at the mistakes:
one that was seen to do what the learner's answer did is the diagnosis. The same edits are the proofs, so that no wrong
answer is written twice.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from io import StringIO
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course_utils.checks import AnswerRaised, NotAttempted
from course_utils.checks import Missed as Missed
from course_utils.checks.agreement import ABSENT, agree, alike, shown
from course_utils.checks.agreement import AtMost as AtMost
from course_utils.checks.agreement import Raised as Raised
from course_utils.checks.exercise import Exercise
from course_utils.checks.predictions import normal_value as normal_value
from course_utils.checks.predictions import predict as predict
from course_utils.checks.trial import Trial as Trial
from course_utils.checks.trial import hook_count as hook_count
from course_utils.checks.trial import new_seed

# What a look gives: what it saw, by the words that a card uses for it. Who calls the answer several times yields the
# pairs one by one, so that the card shows the call of which each was seen.
Seen = Mapping[str, Any] | Iterable[tuple[str, Any]]
Look = Callable[[Trial], Seen]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call of the answer gives: its value, or the error that it raises (``Raised``)."""
    try:
        return call()
    except AnswerRaised as raised:
        return Raised.by(raised.error)


class _Piece(NamedTuple):
    """What a look saw, by the name that it gave it, and the call of which it was seen."""

    name: str
    value: Any
    call: str = ""


@dataclass
class _View:
    """What one look saw of one answer, piece by piece; what ended it early; and what the answer changed."""

    pieces: list[_Piece] = field(default_factory=list)
    error: Exception | None = None
    effects: Sequence[str] = ()

    def __getitem__(self, at: int) -> tuple[str, Any]:
        return self.pieces[at][:2] if at < len(self.pieces) else ("", ABSENT)

    def likeness(self, other: "_View") -> int:
        """How many pieces show the same mistake, or none."""
        return sum(alike(other[at], self[at]) for at in range(len(self.pieces)))


def view(look: Look, trial: Trial, seed: int) -> _View:
    """What a look sees of the trial's answer, on the inputs that the seed gives."""
    trial.draw_from(seed)
    seen = _View()
    try:
        pairs = look(trial)
        for name, value in pairs.items() if isinstance(pairs, Mapping) else pairs:
            seen.pieces.append(_Piece(name, value, trial.called))
    except (Missed, NotAttempted):
        raise
    except Exception as error:  # of others than the answer's: it could make nothing of what came back
        name, raised = ("raised", error.error) if isinstance(error, AnswerRaised) else ("could not be judged", error)
        seen.error = error
        seen.pieces.append(_Piece(name, Raised.by(raised), trial.called))
    return seen


@dataclass
class Compared(Exercise):
    """An exercise with a model answer and mistakes in it.

    Attributes:
        names: what the answers may use beside torch, nn and F.
    """

    names: Mapping[str, Any] = field(default_factory=dict)
    _looks: list[Look] = field(default_factory=list, repr=False)

    @property
    def ways(self) -> list[tuple[str, Sequence[str]]]:
        """For each mistake the key of its misconception and its edits: old text, new text, old, new ...; or a whole
        answer alone."""
        return [(key, edits) for key, known in self.misconceptions.items() for edits in known.wrong]

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

    def looks(self, text: str, key: str = "", *, weight: float = 1.0, gate: bool = False) -> Callable[[Look], Look]:
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

    def key_of(self, number: int, effects: Sequence[str]) -> str:
        """The misconception of the first mistake that changes what the answer changed where this claim looks."""
        look, seed = self._looks[number], new_seed()
        views = ((key, self._view(look, mistake, seed)) for key, mistake in self.mistakes)
        return next((key for key, seen in views if set(effects) <= set(seen.effects)), "")

    def _view(self, look: Look, answer: Any, seed: int) -> _View:
        """What a look sees of an answer that is nobody's: of the model, of a mistake, of the learner's once more."""
        trial, seen = Trial(answer, self.name), _View()
        with warnings.catch_warnings(action="ignore"), redirect_stdout(StringIO()), suppress(Missed, NotAttempted):
            seen = view(look, trial, seed)
        seen.effects = trial.effects
        return seen

    def _compare(self, trial: Trial, look: Look, key: str) -> None:
        seed = new_seed()
        got, right = view(look, trial, seed), self._view(look, self.model, seed)
        if right.error:  # the look itself is broken: two answers that cannot be judged are not alike
            raise right.error
        ends = range(max(len(got.pieces), len(right.pieces)))
        apart = next((at for at in ends if not agree(got[at], right[at])), None)
        if apart is None:
            return
        found = self._diagnosis(trial.answer, look, seed, got, right, apart)
        if isinstance(got.error, AnswerRaised) and not found:
            raise got.error  # the text file may know what it says
        if apart < len(got.pieces):
            trial.called = got.pieces[apart].call
        raise Missed(found or key, **shown(got[apart], right[apart], got.error))

    def _diagnosis(self, answer: Any, look: Look, seed: int, got: _View, right: _View, apart: int) -> str:
        """The key of the mistake that does what the answer did where it first differs, and as much as possible else.

        Where mistakes of several keys do, the one that is most like the answer in all claims.
        """
        see = cache(lambda each, mistake: self._view(each, mistake, seed))
        fits = [
            (got.likeness(see(look, mistake)), key, mistake)
            for key, mistake in self.mistakes
            if alike(see(look, mistake)[apart], got[apart]) and not agree(see(look, mistake)[apart], right[apart])
        ]
        best = [(key, mistake) for count, key, mistake in fits if count == max(fits, key=itemgetter(0))[0]]
        if len({key for key, _ in best}) > 1:
            mine = [(each, got if each is look else self._view(each, answer, seed)) for each in self._looks]
            best.sort(key=lambda one: -sum(seen.likeness(see(each, one[1])) for each, seen in mine))
        return best[0][0] if best else ""


def compared(file: str, **names: Any) -> Compared:
    """An exercise that has no claims yet, as ``Exercise.read`` gives it; ``names`` as in ``Compared``."""
    return Compared.read(file, names=names)


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


class Unlucky(Exception):
    """What a batch or a model raises in a check."""


class Raises(nn.Module):
    """A layer whose forward raises ``Unlucky``."""

    def forward(self, x: Tensor) -> Tensor:
        """Raises it, whatever comes."""
        raise Unlucky("this layer cannot go on")


class ModeRoll(nn.Module):
    """Tells the modes apart without a random number: in training mode the columns are turned by one place."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns ``x`` itself in eval mode, and a copy with its last dimension turned in training mode."""
        return x.roll(1, dims=-1) if self.training else x


def unlucky(items: Iterable[Any]) -> Iterator[Any]:
    """The items, and then ``Unlucky``."""
    yield from items
    raise Unlucky("this batch cannot be read")


def squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """The mean squared error, 0-dim."""
    return (prediction - target).square().mean()
