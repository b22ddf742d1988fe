"""What is stored of a learner, as plain data: attempts, predictions, misconceptions that were told."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """What is stored about one exercise.

    Attributes:
        lesson: the lesson's name.
        exercise: the exercise's name.
        earned: points of the last attempt.
        best: points of the best attempt.
        possible: points it can earn; 0 until it is attempted.
        status: a ``Score``'s status, of the last attempt; "not attempted" where only hints were taken.
        count: how often it was attempted.
        hints: how many of its hints have been seen.
    """

    lesson: str
    exercise: str
    earned: float
    best: float
    possible: float
    status: str
    count: int
    hints: int

    @property
    def best_share(self) -> float:
        """The best attempt's share of the points that the exercise could earn, 0 to 1."""
        return min(self.best / self.possible, 1.0) if self.possible else 0.0


@dataclass(frozen=True)
class Showing:
    """A misconception that an answer shows.

    Attributes:
        home: its place in the course, ``"detach/snapshot/alias"``.
        claim: the text of the claim that shows it.
        name: what it is called.
        notebook, heading: where the course explains it.
    """

    home: str
    claim: str
    name: str
    notebook: str
    heading: str


@dataclass(frozen=True)
class Told:
    """A misconception that a learner was told of, in one exercise.

    Attributes:
        home: its place in the course, ``"detach/snapshot/alias"``.
        lesson, exercise: where it was told.
        name: what it was called when it was last told.
        notebook, heading: where the course explained it then.
        count: how many answers showed it.
        first_at, last_at: when it was first and last told, as ISO 8601 in UTC.
        cleared_at: when a later answer to the same exercise was free of it; None while it is open.
    """

    home: str
    lesson: str
    exercise: str
    name: str
    notebook: str
    heading: str
    count: int
    first_at: str
    last_at: str
    cleared_at: str | None


@dataclass(frozen=True)
class StoredPrediction:
    """What is stored about one prediction.

    Attributes:
        lesson: the lesson's name.
        question: what was asked.
        right: whether the last guess was right.
        first_right: whether the first guess was.
        count: how often a guess was made.
    """

    lesson: str
    question: str
    right: bool
    first_right: bool
    count: int
