"""Makes the course's site: ``python -m tools.book``; with ``answers``, runs the lessons and stores what PyTorch says.

The pages' sources are written to a folder that looks like the repository, so that a link in a text leads to the same
place here and there; then Sphinx makes the site, and every warning of its is an error.
"""

import argparse
import shutil
import sys
from pathlib import Path

import nbformat

from course_utils.authoring.files import Course
from course_utils.catalogue import LESSONS, find
from course_utils.why.pages import pages
from tools.book import answers, engine, errors, front, lessons, mistakes, panel

ROOT = Path(__file__).resolve().parents[2]
# What the head of each page links to: title, and the page, in a text of its own or made here. The first ones are seen,
# the others open.
PAGES = {
    "notebooks/index": "Lessons",
    "misconceptions/index": "Misconceptions",
    "errors/index": "Errors",
    "docs/instruments": "Instruments",
    "docs/setup": "Setting up",
    "control_panel": "Control panel",
    "api/index": "API",
    "docs/classroom": "For teachers",
    "docs/architecture": "Architecture",
    "CONTRIBUTING": "Contributing",
    "CHANGELOG": "Changelog",
}


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.book", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("site", "answers"), default="site")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "book", help="the site's folder (build/book)")
    parser.add_argument("lesson", nargs="*", help="whose answers are stored, for example detach (every lesson's)")
    options = parser.parse_args()
    course = Course(ROOT)
    if options.what == "answers":
        answers.store(course, [find(name) for name in options.lesson] or LESSONS)
        return 0
    sources = options.to.with_name(options.to.name + "-sources")
    for folder in (options.to, sources):
        shutil.rmtree(folder, ignore_errors=True)
    write_sources(course, sources)
    if (status := make_site(sources, options.to)) == 0:
        print(f"The site is {options.to / 'index.html'}")
    return status


def write_sources(course: Course, folder: Path) -> None:
    """Writes what Sphinx reads, into a folder that does not exist yet."""
    said = answers.stored()
    (folder / "notebooks").mkdir(parents=True)
    for lesson in LESSONS:
        page = lessons.page(course, lesson, said[lesson.name])
        nbformat.write(page, folder / "notebooks" / f"{lesson.notebook}.ipynb")
        _write(folder / "misconceptions" / f"{lesson.notebook}.md", mistakes.page(lesson))
    (folder / "notebooks" / "further").mkdir()
    for path in course.further_paths():
        nbformat.write(lessons.further(path), folder / "notebooks" / "further" / path.name)
    _write(folder / "misconceptions" / "index.md", mistakes.overview())
    for error in pages():
        _write(folder / "errors" / f"{error.key}.md", errors.page(error))
    _write(folder / "errors" / "index.md", errors.overview())
    _write(folder / "notebooks" / "index.md", front.lessons({path.stem for path in course.further_paths()}))
    _write(folder / "api" / "index.rst", front.names())
    _write(folder / "control_panel.md", panel.page())
    _write(folder / "notebooks" / f"{front.ENGINE}.md", engine.page())
    shutil.copytree(course.root / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.py"))
    shutil.copy(course.root / "LICENSE", folder)
    for name in PAGES:
        if (course.root / f"{name}.md").exists():
            shutil.copyfile(course.root / f"{name}.md", folder / f"{name}.md")
    readme = (course.root / "README.md").read_text(encoding="utf-8")
    _write(folder / "index.md", front.front_page(readme, [f"{title} <{name}>" for name, title in PAGES.items()]))


def make_site(sources: Path, site: Path, builder: str = "html") -> int:
    """Runs Sphinx; returns its exit status, which is not 0 where there was a warning.

    Args:
        sources: the folder of the pages' sources.
        site: the folder that is made.
        builder: one of Sphinx's; ``linkcheck`` tries the links that lead out of the site.
    """
    from sphinx.cmd.build import build_main  # not at the top: to write the sources takes no Sphinx

    places = ["-c", str(Path(__file__).parent), "-d", str(sources / ".doctrees"), str(sources), str(site)]
    return build_main(["-q", "-W", "--keep-going", "-b", builder, *places])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
