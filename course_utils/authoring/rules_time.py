"""Rules about a learner's time: a lesson says how long its sittings are, and none is above an hour (``RULES``)."""

from collections.abc import Iterator

from course_utils.authoring.problems import Notebook, Problem

MAX_CELLS = 65
MAX_MINUTES = 60


def length(notebook: Notebook) -> Iterator[Problem]:
    """A lesson has no more cells than two sittings can hold."""
    if len(notebook.cells) > MAX_CELLS:
        what = f"The lesson has {len(notebook.cells)} cells; {MAX_CELLS} are the most for two sittings."
        yield notebook.problem("length", what, "join cells, or take out what is not needed.")


def sittings(notebook: Notebook) -> Iterator[Problem]:
    """The opening says how long each sitting takes, and none takes too long."""
    if not notebook.minutes:
        return
    if max(notebook.minutes) > MAX_MINUTES:
        what = f"A sitting of {max(notebook.minutes)} minutes; {MAX_MINUTES} are the most."
        yield notebook.problem("time", what, "begin the second sitting elsewhere, or take out what is not needed.")
    first, *second = notebook.minutes
    said = f"two sittings, of {first} and {second[0]} minutes" if second else f"{first} minutes"
    if said not in " ".join(notebook.cells[0].source.split()):
        what = "The opening does not say how long it takes."
        yield notebook.problem("time", what, f"write: {said}", notebook.cells[0])


RULES = (length, sittings)
