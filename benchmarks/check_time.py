"""What a learner waits for: the processor time of a process's first check, for every exercise of every lesson.

A right answer, the course's own, and a wrong one are each judged in a process of their own: a fork of one that has
imported PyTorch, the lessons and the answers, and judged nothing. The right one is judged again there: what the median
of that is short of the first time is what was loaded or made for the first time. PyTorch's compiler is not to be among
it, for it takes seconds; ``LOADERS`` are the exercises that cannot do without. Run with
``python -m benchmarks.check_time``, on Linux or macOS.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

COMPILER = ("sympy", "torch._dynamo", "torch._inductor")
# The exercises whose check loads the compiler, or sympy, and what of PyTorch's does so there.
LOADERS = dict.fromkeys(
    ("freeze", "make_weight", "accumulated_step", "apply_gradients", "run_clinic"), "an optimizer"
) | {
    "histogram_gradient": "autograd.grad with an upstream gradient, in the answer",
    "per_sample_gradients": "torch.func.grad, in the answer",
    "train_ensemble": "torch.func.grad, in the answer",
}
FIRST_SECONDS, MEDIAN_SECONDS = 0.3, 0.15  # targets, of processor time; for ``LOADERS`` there is none


@dataclass
class Row:
    """One exercise: processor seconds, and what of ``COMPILER`` the first check with either answer has loaded."""

    lesson: str
    exercise: str
    right: float
    again: float
    wrong: float
    loaded: list[str]

    @property
    def reached(self) -> bool:
        if self.exercise in LOADERS:
            return bool(self.loaded)  # else its line there is no longer true
        return not self.loaded and max(self.right, self.wrong) < FIRST_SECONDS and self.again < MEDIAN_SECONDS


def measure(lessons: Sequence[str], again: int = 5, leave_out: Sequence[str] = ()) -> Iterator[Row]:
    """Times the checks of some lessons; this process must not have judged anything before.

    Args:
        lessons: what ``Lesson(name)`` takes.
        again: how often each right answer is judged after the first time.
        leave_out: exercises that are not judged.

    Raises:
        RuntimeError: an answer of the course's own does not get full points, or a wrong one does.
    """
    from course_utils import Lesson
    from tests.lessons.answers import made

    for name in lessons:
        lesson = Lesson(name)
        own = {exercise: made(name, exercise, one.source) for exercise, one in lesson.exercises.items()}
        for exercise in [one for one in lesson.exercises if one not in leave_out]:
            wrong = _wrong_answer(lesson, exercise, own[exercise])
            seconds, loaded = _in_fork(lesson, exercise, own[exercise], again, True)
            seconds_wrong, loaded_wrong = _in_fork(lesson, exercise, wrong, 0, False)
            median = statistics.median(seconds[1:] or seconds)
            yield Row(name, exercise, seconds[0], median, seconds_wrong[0], sorted({*loaded, *loaded_wrong}))


def _wrong_answer(lesson: Any, exercise: str, right: Any) -> Any:
    if isinstance(right, dict):
        return dict.fromkeys(right, next(iter(right.values())))
    if mistakes := getattr(lesson.exercises[exercise], "mistakes", ()):
        return mistakes[0][1]
    return lambda *_: 0


def _in_fork(lesson: Any, exercise: str, answer: Any, again: int, is_right: bool) -> tuple[list[float], list[str]]:
    reader, writer = os.pipe()
    if not os.fork():
        try:
            first, status = _timed(lesson, exercise, answer)
            loaded = [name for name in COMPILER if name in sys.modules]
            later = [_timed(lesson, exercise, answer)[0] for _ in range(again)]
            if (status == "passed") is is_right:
                os.write(writer, json.dumps([[first, *later], loaded]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        said = pipe.read()
    os.wait()
    if not said:
        raise RuntimeError(
            f"{lesson.name}, {exercise}: its {'solution' if is_right else 'mistake'} is not judged as one."
        )
    return json.loads(said)


def _timed(lesson: Any, exercise: str, answer: Any) -> tuple[float, str]:
    begin = time.process_time()
    score = lesson.check(exercise, answer)
    score._repr_html_()  # what a notebook shows
    return time.process_time() - begin, score.status


def main(arguments: Sequence[str] | None = None) -> int:
    from course_utils.catalogue import LESSONS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lessons", nargs="*", help="only these lessons")
    options = parser.parse_args(arguments)
    print(
        f"Targets: first check under {FIRST_SECONDS} s of processor time, the median of later ones {MEDIAN_SECONDS} s"
    )
    print(f"{'lesson':23}{'exercise':23}{'right ms':>9}{'again ms':>10}{'wrong ms':>10}  loads the compiler, or sympy")
    missed = 0
    with TemporaryDirectory() as scratch:
        os.environ["COURSE_UTILS_PROGRESS"] = f"{scratch}/progress.sqlite3"
        for row in measure(options.lessons or [info.name for info in LESSONS]):
            missed += not row.reached
            times = f"{row.right * 1e3:9.0f}{row.again * 1e3:10.0f}{row.wrong * 1e3:10.0f}"
            loads = LOADERS.get(row.exercise, "yes") if row.loaded else ""
            print(f"{row.lesson:23}{row.exercise:23}{times}{'' if row.reached else '  missed'}  {loads}".rstrip())
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
