"""Which call recorded a node (``Thread``). Autograd numbers the nodes of each thread by itself."""

from bisect import bisect_left, bisect_right

from course_utils.base.torch_private import sequence_number


class Thread:
    """The calls that began in one thread, and the number of the first node after each."""

    def __init__(self) -> None:
        self._calls: list[int] = []
        self._firsts: list[int] = []

    def call_begins(self, call: int) -> None:
        """A call begins now."""
        self._calls.append(call)
        self._firsts.append(sequence_number())

    def call_of(self, number: int) -> int:
        """The call that recorded a node; 0 for one before the first."""
        at = bisect_right(self._firsts, number) - 1
        return self._calls[at] if at >= 0 else 0

    def first_of(self, call: int) -> int:
        """The number of the first node that a call of this thread recorded, or could have."""
        at = bisect_left(self._calls, call)
        return self._firsts[at] if at < len(self._firsts) else sequence_number()
