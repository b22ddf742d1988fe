"""Each page of the index of errors: its program raises the error, and from what it says the page is found."""

import difflib
import functools
from collections import Counter

import nbformat
import pytest

from course_utils.authoring.programs import printed
from course_utils.catalogue import COURSE, notebook
from course_utils.why.pages import ERRORS, page_for, pages, read

PAGES = {page.key: page for page in pages()}


@functools.cache
def headings(name):
    """Those of a lesson, and of what goes on from one: "further/detach"."""
    path = COURSE / "notebooks" / "solutions" / f"{notebook(name)}.ipynb"
    if "/" in name:
        path = COURSE / "notebooks" / f"{notebook(name)}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    lines = [line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    return [line.lstrip("#").strip() for line in lines if line.startswith("#")]


def by_day(page):
    """At a push ``test_ask`` runs every program that raises and finds the page by it: here are those that go on."""
    return page.warns or "process_group" in page.program


@pytest.fixture(scope="module")
def raised(request):
    """What each program gives here: a process for each, whole messages."""
    at_night = request.config.getoption("--tier") == "nightly"
    chosen = [page for page in PAGES.values() if at_night or by_day(page)]
    shown = printed([page.program for page in chosen], whole=True)
    return {page.key: said for page, said in zip(chosen, shown, strict=True)}


@pytest.mark.parametrize(
    "page",
    [pytest.param(one, id=one.key, marks=() if by_day(one) else pytest.mark.nightly) for one in PAGES.values()],
)
def test_its_program_raises_it_and_the_message_finds_the_page(page, raised):
    said = raised[page.key]
    begun, is_raised, message = said.rpartition(f"{page.kind}: ")
    assert is_raised and (not begun or begun.endswith("\n")), f"no {page.kind}, but:\n{said}"
    assert page_for(message) is page, f"the message of {page.key} leads to {page_for(message)}:\n{message}"


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_what_is_stored_of_its_message_finds_the_page(page):
    stored = page.prints.rpartition(f"{page.kind}: ")[2]
    assert page_for(stored) is page, "To store it: python -m course_utils.authoring programs errors"


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_its_program_is_short(page):
    lines = page.program.splitlines()
    assert 1 <= len(lines) <= 10, f"a program has one line to ten, this one {len(lines)}"
    assert not [line for line in lines if len(line) > 88]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_it_is_explained_under_headings_that_exist(page):
    for lesson, heading in {page.explained, *(cause.explained for cause in page.causes)}:
        there = headings(lesson)
        near = difflib.get_close_matches(heading, there, 1, 0)
        assert heading in there, f'lesson {lesson} has no "{heading}", but "{near[0]}"'
        assert not heading.startswith("Exercise "), "its number may change: name the heading before it"


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_its_causes_have_names_of_their_own(page):
    assert 1 <= len(page.causes) <= 5
    assert len({cause.key for cause in page.causes}) == len(page.causes)


def test_no_two_pages_match_equally():
    """Where a message holds parts of two pages, one is an error's and the other a warning's, or one is longer."""
    parts = [("".join(part.split()), page) for page in PAGES.values() for part in page.messages]
    assert [part for part, count in Counter(part for part, _ in parts).items() if count > 1] == []
    for page in PAGES.values():
        said = "".join(page.prints.split())
        found = [(not owner.warns, len(part), owner.key) for part, owner in parts if part in said]
        assert {key for *rank, key in found if rank == list(max(found)[:2])} == {page.key}


def test_no_two_pages_have_the_same_title():
    titles = Counter(page.title for page in PAGES.values())
    assert [title for title, count in titles.items() if count > 1] == []


def test_a_message_is_found_in_whatever_lines_it_was_pasted():
    pasted = "RuntimeError: element 0 of tensors does not\n  require grad and does not have a grad_fn\n"
    assert page_for(pasted) is PAGES["does_not_require_grad"]
    assert page_for("shapes cannot be multiplied by wishes") is None and page_for("") is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("means =", "meaning =", r"the page has meaning and lacks means|the page lacks means and has meaning"),
        ("cure =", "cures =", r"cause 'manual_step' lacks cure and has cures"),
        ("kind =", "kind", r"is no TOML"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path, old, new, said):
    path = tmp_path / "page.toml"
    path.write_text((ERRORS / "leaf_in_place.toml").read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"page\.toml:? {said}|page\.toml: ({said})"):
        read(path)
