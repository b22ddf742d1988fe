import re

import pytest

from course_utils.base.document import rows, typed
from course_utils.base.markup import Html, bar, clean, element, explained_link, prose, text_bar, visible, wrap
from course_utils.progress.tables import points


def test_only_html_goes_into_an_element_as_it_is():
    assert element("p", "1 < 2", element("b", "&")) == "<p>1 &lt; 2<b>&amp;</b></p>"
    assert element("p", Html("<br>")) == "<p><br></p>"
    assert element("p", title='a "b"', aria_hidden="true") == '<p title="a &quot;b&quot;" aria-hidden="true"></p>'
    joined = Html("<i>") + "</i>"
    assert element("p", joined) == "<p>&lt;i&gt;&lt;/i&gt;</p>", "what was put together by hand is text again"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("call `x.detach()` now", "call <code>x.detach()</code> now"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("one ` alone", "one ` alone"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("not `across\nlines`", "not `across\nlines`"),
        ("the *same* memory", "the <em>same</em> memory"),
        ("`a * b * c`", "<code>a * b * c</code>"),
        ("a * b * c", "a * b * c"),
        ("2*3*4 and **kwargs", "2*3*4 and **kwargs"),
    ],
)
def test_backticks_and_asterisks_mark_code_and_emphasis(text, html):
    assert prose(text) == html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07end", "red end"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("a\x00b\x7f\u202ec\ufeff", "a\\x00b\\x7f\\u202ec\\ufeff"),
        ("\ud800", "\\ud800"),
        ("tab\tkept, 漢字 é, joined\u200cletters", "tab\tkept, 漢字 é, joined\u200cletters"),
    ],
)
def test_what_cannot_be_seen_is_written_out_or_left_out(text, shown):
    assert visible(text) == clean(text) == shown


def test_text_is_cut_to_its_limit_and_says_so():
    assert clean("x" * 10, limit=10) == "x" * 10
    assert clean("x" * 11, limit=10) == "x" * 6 + " ..."
    assert clean("a\nb\nc", lines=2) == "a\nb\n... and 1 more line"
    assert clean("a\nb\nc\nd", lines=2) == "a\nb\n... and 2 more lines"
    assert clean("a\nb", lines=2) == "a\nb"


def test_anything_can_be_shown():
    assert clean(None) == "None" and prose(1.5) == "1.5"


@pytest.mark.parametrize(
    ("earned", "possible", "said"),
    [
        (1, 1, "1 of 1 point"),
        (0, 2, "0 of 2 points"),
        (2 / 3, 2, "0.67 of 2 points"),
        (0.5, 1.5, "0.5 of 1.5 points"),
        (1.999, 2, "1.99 of 2 points"),
        (0.001, 2, "0.01 of 2 points"),
        (13.55, 120, "13.55 of 120 points"),
        (0, 0, "no points"),
    ],
)
def test_points_are_rounded_but_never_to_none_or_all(earned, possible, said):
    assert points(earned, possible) == said


@pytest.mark.parametrize(
    ("share", "filled"), [(-1, 0), (0, 0), (0.001, 1), (0.5, 5), (0.54, 5), (0.999, 9), (1, 10), (2, 10)]
)
def test_a_bar_is_full_or_empty_only_where_the_share_is(share, filled):
    assert text_bar(share) == "█" * filled + "░" * (10 - filled)
    (percent,) = re.findall(r"width:(\d+)%", bar(share))
    assert (percent == "0", percent == "100") == (filled == 0, filled == 10)


def test_values_stand_in_one_column_and_long_ones_hang_below_it():
    lines = rows([("got", "one two " * 20), ("expected", "  indented\nsecond")]).text("  ").split("\n")
    assert lines[0].startswith("    got       one two") and lines[1].startswith("              one two")
    assert lines[-2:] == ["    expected    indented", "              second"]
    assert max(map(len, lines)) <= 88


def test_printed_lines_keep_their_spaces_and_wrap_behind_their_line():
    assert typed("a\n    b\n\n" + "x" * 90).text("").split("\n") == [
        "  | a",
        "  |     b",
        "  |",
        "  | " + "x" * 84,
        "  | " + "x" * 6,
    ]


def test_prose_wraps_with_its_indent():
    lines = wrap("word " * 40, "  Note: ", "    ").split("\n")
    assert lines[0].startswith("  Note: word") and all(line.startswith("    word") for line in lines[1:])
    assert max(map(len, lines)) <= 88
    assert wrap("", "  Note: ") == "  Note:"


def test_a_link_to_a_lesson_leads_there_from_where_the_notebook_lies(tmp_path, monkeypatch):
    (tmp_path / "further").mkdir()
    for folder, way in ((tmp_path, ""), (tmp_path / "further", "../")):
        monkeypatch.chdir(folder)
        assert f'href="{way}03_detach.ipynb#Read-on"' in explained_link("03_detach", "Read on")
    (tmp_path / "further").rmdir()  # while the notebook is open
    assert 'href="03_detach.ipynb#Read-on"' in explained_link("03_detach", "Read on")
