"""The pages above the others, as text: the front page, made of README.md, the list of lessons and that of names."""

from collections.abc import Collection
from itertools import chain

import course_utils
from course_utils.catalogue import LESSONS

PAGES = """
```{{toctree}}
:hidden:

{pages}
```
"""
# What the public names return; their own modules are nobody's import.
RETURNED = {
    "checks.score": ("Hint", "Prediction", "Solution"),
    "controls": ("Control", "ControlPanel"),
    "draw.page": ("Drawing",),
    "drills": ("Drill", "DrillScore"),
    "graph": ("GraphNode", "SavedTensor"),
    "leaks.findings": ("Finding", "Part"),
    "measure.compare": ("Comparison", "Cost"),
    "measure": ("Environment",),
    "memory.report": ("LineMemory", "LineUse", "Timeline"),
    "progress.history": ("Reset",),
    "progress.tables": ("Progress", "ScoreCard", "ScoreRow"),
    "why.pages": ("Reason",),
}
ENGINE = "the_engine"  # the page that shows the engine of the last lesson whole
LESSONS_HEAD = """\
# Lessons

Each lesson opens with a failure and the question that it raises. You can read them here. To work through them, with
checks that answer you, open them in JupyterLab: `make lab`.

"""
API = """\
API
===

Every public name of ``course_utils``, in the words of its docstring.

.. currentmodule:: course_utils

.. autosummary::
   :toctree: .
   :template: name.rst
   :nosignatures:

   {public}

What they return
----------------

.. autosummary::
   :toctree: .
   :template: name.rst
   :nosignatures:

   {returned}
"""


def front_page(readme: str, pages: list[str]) -> str:
    """README.md without the lines that lead to this very site.

    Args:
        readme: its text.
        pages: what the site's head links to, as in a toctree.
    """
    before, _, rest = readme.partition("<!-- the site -->\n")
    return before + rest.partition("<!-- end -->\n")[2] + PAGES.format(pages="\n".join(pages))


def lessons(further: Collection[str] = ()) -> str:
    """The list of lessons, in Markdown.

    Args:
        further: the lessons, by their notebooks, that another notebook goes on from: its page follows the lesson's.
    """
    rows = [f"{row.number}. [{row.title}]({row.notebook}.ipynb)\\\n   {row.question}\n" for row in LESSONS]
    pages = [[row.notebook, *[f"further/{row.notebook}"] * (row.notebook in further)] for row in LESSONS] + [[ENGINE]]
    return LESSONS_HEAD + "".join(rows) + PAGES.format(pages="\n".join(chain.from_iterable(pages)))


def names() -> str:
    """The list of public names, in reStructuredText; autosummary makes a page for each."""
    public = "\n   ".join(sorted(course_utils.__all__, key=str.lower))
    returned = (f"{module}.{name}" for module, names in RETURNED.items() for name in names)
    return API.format(public=public, returned="\n   ".join(returned))
