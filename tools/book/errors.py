"""The index of errors, made from its text files (``page``, ``overview``); what finds a pasted message (``parts``)."""

import json
from itertools import chain

from myst_parser.slugs import github_slugify

from course_utils import catalogue
from course_utils.catalogue import LESSONS
from course_utils.why.pages import ErrorPage, pages
from tools.book.mistakes import escaped

RAISED = 'have Python raise it, by `warnings.simplefilter("error")`, and '
OVERVIEW = """\
# Errors and warnings

Here are {count} errors and warnings of autograd, `torch.func`, checkpointing, optimizers, modules and
DistributedDataParallel. Each has a page with a short program that raises it, what it means, and its usual causes, the
most frequent first, with what helps. Paste your message into the search, and it finds the page.

{rows}

```{{toctree}}
:hidden:

{pages}
```
"""


def overview() -> str:
    """The page above the others, in Markdown, by the lessons that explain them."""
    rows = []
    for lesson in LESSONS:
        of_it = [page for page in pages() if page.explained[0].rpartition("/")[2] == lesson.name]
        if of_it:
            rows.append(f"## {lesson.number:02d} {escaped(lesson.title)}\n")
            rows += [
                f"- [{escaped(page.title)}]({page.key}.md)\\\n  {page.kind}: {escaped(page.messages[0])}"
                for page in of_it
            ]
            rows.append("")
    names = "\n".join(page.key for page in pages())
    return OVERVIEW.format(count=len(pages()), rows="\n".join(rows), pages=names)


def page(error: ErrorPage) -> str:
    """One error's page, in Markdown."""
    head = [
        f"# {escaped(error.title)}\n",
        f"```{{code-block}} text\n:class: said\n\n{error.prints}\n```\n",
        f"{escaped(error.means)}\n",
        f"Lesson {_link(error.explained)} explains it.\n",
        f"To learn which of your lines it is, {RAISED * error.warns}run `why()` in the next cell.\n",
        "## A program that raises it\n",
        f"```python\n{error.program}\n```\n",
        "## What leads to it, and what helps\n",
    ]
    return "\n".join(chain(head, *(_cause(error, place) for place in range(len(error.causes)))))


def parts() -> str:
    """A script that gives ``pasted.js`` what it looks for: part of a message, its page, and whether it is a warning."""
    rows = [
        [part, error.key, error.title.replace("`", ""), error.warns] for error in pages() for part in error.messages
    ]
    return f"const ERRORS = {json.dumps(rows)};"


def _cause(error: ErrorPage, place: int) -> list[str]:
    cause = error.causes[place]
    read = f"\\\n   *Read:* {_link(cause.explained)}" if cause.explained != error.explained else ""
    return [f"{place + 1}. {escaped(cause.cause)}\\\n   *Try:* {escaped(cause.cure)}{read}\n"]


def _link(explained: tuple[str, str]) -> str:
    name, heading = explained
    folder, _, lesson = name.rpartition("/")
    number, title = catalogue.find(lesson).number, catalogue.find(lesson).title
    words = f"{number:02d} {title}{', going further' * bool(folder)}, “{heading}”"
    return f"[{escaped(words)}](../notebooks/{catalogue.notebook(name)}.ipynb#{github_slugify(heading)})"
