"""Where a round of a loop begins that calls no model and computes no gradient: where the loop goes back (``Loops``)."""

from collections import Counter
from types import CodeType, FrameType

from course_utils.base.user_code import Site, is_user_file

_LEAST_ROUNDS = 8


class Loops:
    """Sees where a loop of the user's goes back, from the frames of operations alone: the last resort of a program that
    calls no module and computes no gradient.

    Attributes:
        begins_at: the line where a round begins; None until one loop has gone round often enough.
    """

    def __init__(self) -> None:
        self.begins_at: Site | None = None
        self._last: list[tuple[int, int]] = []
        self._rounds: Counter[CodeType] = Counter()
        self._same = 0
        self._loop: CodeType | None = None

    def goes_back(self, frame: FrameType | None) -> bool:
        """Whether a round begins with the operation that is running: the loop that was chosen has gone back.

        Args:
            frame: the operation's.
        """
        frames: list[FrameType] = []
        while frame is not None:
            if is_user_file(frame.f_code.co_filename):
                frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        before, self._last = self._last, [(id(one), one.f_lasti) for one in frames]
        for (key, at), one in zip(before, frames, strict=False):
            if key != id(one):
                return False
            if one.f_lasti != at:
                return one.f_lasti < at and self._has_gone_back(one)
        # Twice at the same place: a loop of one operation, or an operation that takes memory twice.
        self._same += len(before) == len(frames) > 0
        return self._same > 4 * _LEAST_ROUNDS and bool(frames) and self._has_gone_back(frames[-1])

    def _has_gone_back(self, frame: FrameType) -> bool:
        code = frame.f_code
        self._rounds[code] += 1
        if self._loop is None and self._rounds[code] >= _LEAST_ROUNDS:
            self._loop = code
            self.begins_at = Site(code.co_filename, frame.f_lineno or 0, code.co_qualname)
        return code is self._loop
