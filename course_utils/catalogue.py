"""The lessons of the course, in order: what each is called, asks and costs (``LESSONS``, ``find``); where they lie
(``COURSE``), and the text files of their exercises (``text_files``). Their minutes and points are written by
`make lessons`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_utils.base import explain
from course_utils.base.files import read_toml

_PACKAGE = Path(__file__).resolve().parent
# The folder that holds notebooks/: a wheel has them inside the package, a checkout beside it.
COURSE = _PACKAGE if (_PACKAGE / "notebooks").is_dir() else _PACKAGE.parent


@dataclass(frozen=True)
class LessonInfo:
    """One lesson, as the map of the course shows it.

    Attributes:
        number: its place in the course, from 0.
        name: what ``Lesson(name)`` takes.
        title: its heading.
        question: the question it answers, in the learner's words.
        minutes: how long each of its sittings takes a learner, by an estimate.
        points: the automatic points that its exercises can earn.
    """

    number: int
    name: str
    title: str
    question: str
    minutes: tuple[int, ...]
    points: int

    @property
    def notebook(self) -> str:
        """The notebook's file name without ending: ``03_detach``."""
        return f"{self.number:02d}_{self.name}"

    @property
    def exercises(self) -> dict[str, float]:
        """Its exercises in order, each with the points that it can earn."""
        return {path.stem: float(read_toml(path)["points"]) for path in text_files(_PACKAGE / "lessons" / self.name)}


# fmt: off
LESSONS: tuple[LessonInfo, ...] = (  # two lines for each
    LessonInfo(0, "start_here", "Start here",
               "How does this course work?", (45,), 0),
    LessonInfo(1, "requires_grad", "requires_grad propagation",
               "I froze the encoder. Why did it train on?", (40, 40, 35), 10),
    LessonInfo(2, "leaf_tensors", "Leaf and non-leaf tensors",
               "Why does my weight never move?", (40, 35, 40), 10),
    LessonInfo(3, "detach", "detach",
               "Why does my validation loop eat memory until it dies?", (45, 35, 45), 10),
    LessonInfo(4, "volatile_history", "The history of volatile",
               "Training fits. Why does testing run out of memory?", (30, 40, 35), 10),
    LessonInfo(5, "no_grad", "no_grad and its relatives",
               "My model is in eval(). Why does validation need as much memory as training?", (40, 45, 45), 10),
    LessonInfo(6, "gated_branches", "Gated branches",
               "I closed a branch. Why is the step no faster?", (45, 35, 45), 10),
    LessonInfo(7, "forward_hooks", "Forward hooks",
               "I only read features. Why does my service run out of memory?", (50, 45, 30), 10),
    LessonInfo(8, "custom_function", "Custom autograd.Function",
               "I wrote a backward of my own. Why does nobody call it?", (40, 40, 45), 10),
    LessonInfo(9, "gradient_accumulation", "Gradient accumulation",
               "My batch does not fit. How do I hand the optimizer gradients from many small ones?", (35, 35, 40), 10),
    LessonInfo(10, "model_ensembling", "Model ensembling with vmap",
               "Ten small models in a loop. Why does the GPU sleep?", (30, 40, 45), 10),
    LessonInfo(11, "clinic", "The out-of-memory clinic",
               "A script runs, learns, and dies on larger data. What is wrong with it?", (25, 35, 25, 50, 30), 10),
    LessonInfo(12, "own_engine", "An engine of your own",
               "backward() is one line of mine. What would I have to write, if it were not there?", (50, 35, 50), 10),
)
# fmt: on


def find(name: object) -> LessonInfo:
    """The lesson of that name; a ValueError names those there are."""
    for lesson in LESSONS:
        if lesson.name == name:
            return lesson
    names = ", ".join(lesson.name for lesson in LESSONS)
    raise ValueError(explain(f"There is no lesson called {name!r}.", f"one of {names}."))


def text_files(folder: Path) -> list[Path]:
    """The text files of a lesson's exercises, in the order of their ``number``: 1, 2, 3 and so on, or a ValueError."""
    files = [path for path in folder.glob("*.toml") if path.stem != "predictions"]
    numbers: dict[Path, Any] = {path: read_toml(path).get("number") for path in files}
    if {number for number in numbers.values() if type(number) is int} != set(range(1, len(numbers) + 1)):
        said = ", ".join(f"{path.stem} {number!r}" for path, number in sorted(numbers.items()))
        raise ValueError(f"The exercises in {folder} are to be numbered from 1, without a gap; there are: {said}.")
    return sorted(numbers, key=lambda path: numbers[path])


def notebook(name: str) -> str:
    """The notebook of a lesson, without its ending, and of what goes on from it: ``"further/detach"`` names
    ``"further/03_detach"``.
    """
    folder, slash, lesson = name.rpartition("/")
    return f"{folder}{slash}{find(lesson).notebook}"
