"""How an answer is judged: exercises and their claims, the trial they run in, scores and cards. Here: what ends a claim
before its end: ``Missed`` where it does not hold, and what an answer raises or is.
"""

from typing import Any

from course_utils.base.text import describe, message_of, plain_text


class Missed(Exception):
    """A claim does not hold.

    Args:
        misconception: the key of the misconception that the answer shows; empty where none is recognised.
        details: what to show: ``expected=``, ``got=`` and the like, each a short text or a value to ``describe``.
    """

    def __init__(self, misconception: str = "", **details: Any) -> None:
        super().__init__(misconception, details)
        self.misconception = misconception
        self.details = tuple(
            (label.replace("_", " "), plain_text(value) if issubclass(type(value), str) else describe(value))
            for label, value in details.items()
        )


class NotAttempted(Exception):
    """The answer is still the stub."""


class AnswerRaised(Exception):
    """The answer raised. ``error`` is what it raised; ``details`` has that and the learner's line for a card."""

    def __init__(self, error: BaseException, where: str) -> None:
        super().__init__(describe(error))
        self.error, self.details = error, (("raised", message_of(error)),) + (("in", where),) * bool(where)


class Stopped(BaseException):
    """Raised inside an answer's thread when the learner interrupts the check."""
