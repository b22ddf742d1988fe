"""What every card must be (well-formed, escaped, bounded, readable on both themes, always the same); what each says."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from course_utils.base.markup import MUTED, TEXT_WIDTH
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.score import Claim, Hint, Prediction, Score, Solution
from course_utils.progress.tables import LessonProgress, Progress, ScoreCard, ScoreRow

HOLDS = Claim("has the values and the dtype of `x`", True)
ALSO_HOLDS = Claim("carries no history", True)
ALIAS = Misconception(
    "detach() makes a copy",
    explanation="`detach` gives a new tensor on the *same* memory, so an edit of one is seen in the other.",
    next_step="change one element of the result and look at `x`.",
)
FAILS = Claim(
    "shares no memory with `x`",
    False,
    details=(("called", "snapshot(f32[2, 3])"), ("expected", "a storage of its own"), ("got", "the storage of x")),
    misconception=ALIAS,
)
ALSO_FAILS = Claim(
    "changes nothing else", False, misconception=Misconception("", "The grad mode was off afterwards.", "second step")
)
OPEN = Claim("works on views", False, judged=False)


def score(earned, status, claims=(), **more):
    return Score(earned, lesson="detach", exercise="snapshot", possible=2, status=status, claims=claims, **more)


PASSED = score(2, "passed", (HOLDS, ALSO_HOLDS))
PARTIAL = score(
    1,
    "partial",
    (HOLDS, FAILS, ALSO_HOLDS, ALSO_FAILS, OPEN),
    notes=("took 12.3 s", "the default dtype was put back"),
    output="step 1\n  step 2",
)
NOT_ATTEMPTED = score(0, "not attempted")
ERROR = score(0, "error", (replace(FAILS, text="runs without an error", details=(("raised", "ValueError: no"),)), OPEN))
CARD = ScoreCard(
    "detach", (ScoreRow("snapshot", 1, 1, "passed"), ScoreRow("mean_loss", 0.5, 2, "partial")), 3, 5, ("a note",)
)
COURSE = Progress(
    (
        LessonProgress(0, "start_here", "Start here", 0, 0, True, 1, 1),
        LessonProgress(3, "detach", "detach", 2.5, 10, True, 0, 0),
        LessonProgress(4, "next", "Not begun", 0, 10, False, 0, 0),
    ),
    ("Stored in ~/.autograd-control/progress.sqlite3.",),
)


def html_of(value):
    return value._repr_html_()


def both(value):
    """As a notebook shows it, and as a terminal does: there a score is a number, and printed it is a card."""
    return html_of(value), str(value)


SHOWN = {
    name: both(value)
    for name, value in {
        "passed": PASSED,
        "partial": PARTIAL,
        "not attempted": NOT_ATTEMPTED,
        "error": ERROR,
        "scorecard": CARD,
        "progress": COURSE,
        "hint": Hint("snapshot", "`x.detach()` shares memory. Which call copies?", 2, 3),
        "no hint": Hint("snapshot", "", 3, 3),
        "asked": Prediction("Which `edit` raises?", actual="secret"),
        "right": Prediction("Which `edit` raises?", "'a'", "'a'", True),
        "wrong": Prediction("Which `edit` raises?", "'a'", "'b'", False),
        "thought": Prediction("Which?", "1", "2", False, "One is too few."),
        "solution": Solution("snapshot", "def f(x):\n    return x < 1", "A note."),
        "written": Solution("written", written="It is *so*.\n\n**Marks**\n\n- 1: a\n- 1: b"),
        "no solution": Solution("snapshot", "", "This copy has none."),
    }.items()
}
every_card = pytest.mark.parametrize("name", SHOWN)


class Element:
    def __init__(self, name, attributes, parent):
        self.name, self.attributes, self.parent, self.children = name, dict(attributes), parent, []

    def all(self, name=None):
        """This element and those in it, in the order of the text."""
        below = [found for child in self.children if isinstance(child, Element) for found in child.all(name)]
        return ([self] if name in (None, self.name) else []) + below

    @property
    def words(self):
        """Its text, with a space wherever an element begins or ends."""
        return " ".join(child if isinstance(child, str) else child.words for child in self.children)

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def style(self):
        return dict(pair.split(":", 1) for pair in self.attributes.get("style", "").split(";") if pair)


class Tree(HTMLParser):
    """Builds the tree of a card, and refuses HTML whose elements are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.root = self.open = Element("root", {}, None)
        self.feed(html)
        self.close()
        assert self.open is self.root, f"<{self.open.name}> is not closed"

    def handle_starttag(self, tag, attrs):
        child = Element(tag, attrs, self.open)
        self.open.children.append(child)
        self.open = child

    def handle_endtag(self, tag):
        assert tag == self.open.name, f"</{tag}> closes <{self.open.name}>"
        self.open = self.open.parent

    def handle_data(self, data):
        self.open.children.append(data)

    def handle_comment(self, data):
        pytest.fail(f"a comment: {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def tree(html):
    return Tree(html).root


# Every card


@every_card
def test_a_card_is_one_well_formed_element(name):
    (card,) = [child for child in tree(SHOWN[name][0]).children if isinstance(child, Element)]
    assert card.name in ("section", "div") and card.text.strip()
    assert all(item.parent.name == "ul" for item in card.all("li")), "a list item is in a list"
    faint = [element for element in card.all() if "opacity" in element.style]
    assert all(element.name == "dt" and element.style["opacity"] == MUTED for element in faint), (
        "labels alone are faint"
    )


@every_card
def test_html_and_text_say_the_same_words_and_text_is_no_wider_than_a_terminal(name):
    html, text = SHOWN[name]
    assert max(map(len, text.split("\n"))) <= TEXT_WIDTH == 88
    # Column headings and the labels of sections belong to one form only; signs and bars are decoration.
    only_html = set(re.findall(r"\w+", "Exercise Lesson Share Points First guesses State point points none yet no"))
    words = [set(re.findall(r"\w+(?:[.,]\d+)?", shown)) - only_html for shown in (tree(html).words, text)]
    assert words[0] == words[1]


# What JupyterLab's sanitizer lets through in a notebook that is not trusted, as far as the cards use it:
# https://github.com/jupyterlab/jupyterlab/blob/00bc244605/packages/apputils/src/sanitizer.ts
LENGTH = r"-?\d+(\.\d+)?(em|px|%)|0"
COLOUR = r"#[0-9a-f]{6}"
SANITIZED = {
    "background-color": rf"{COLOUR}|transparent",
    "border": rf"0|1px solid {COLOUR}",
    "border-collapse": "collapse",
    "border-left": rf"[13]px solid {COLOUR}",
    "border-radius": LENGTH,
    "caption-side": "top",
    "clear": "left",
    "color": COLOUR,
    "display": "block|inline-block",
    "float": "left|none",
    "font-family": r"[a-z]+(,[a-z]+)*",
    "font-size": LENGTH,
    "font-weight": "bold|normal",
    "height": LENGTH,
    "line-height": rf"{LENGTH}|\d+(\.\d+)?",
    "list-style": "none",
    "margin": rf"({LENGTH})( ({LENGTH})){{0,3}}",
    "margin-right": LENGTH,
    "max-width": LENGTH,
    "opacity": r"0\.\d+",
    "overflow": "hidden",
    "overflow-wrap": "break-word",
    "padding": rf"({LENGTH})( ({LENGTH})){{0,3}}",
    "text-align": "left|center",
    "vertical-align": rf"middle|{LENGTH}",
    "white-space": "pre-wrap|nowrap",
    "width": rf"auto|{LENGTH}",
}


@every_card
def test_styles_survive_where_the_notebook_is_not_trusted(name):
    for element in tree(SHOWN[name][0]).all():
        assert element.attributes.keys() <= {"style", "scope", "role", "aria-hidden"}, "no class, no id"
        for key, value in element.style.items():
            assert re.fullmatch(SANITIZED[key], value), f"{key}: {value}"


def luminance(colour):
    """https://www.w3.org/TR/WCAG21/#dfn-relative-luminance"""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio"""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def blend(colour, ground, opacity):
    parts = [
        round(opacity * int(colour[i : i + 2], 16) + (1 - opacity) * int(ground[i : i + 2], 16)) for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


def test_contrast_is_computed_as_the_standard_says():
    assert contrast("#ffffff", "#000000") == 21
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48  # the well-known grey that just fails


PAGES = ("#ffffff", "#111111")  # the ground of a cell's output on JupyterLab's light and dark theme


@every_card
def test_coloured_text_brings_its_own_ground_and_colour_alone_is_never_text(name):
    for element in tree(SHOWN[name][0]).all():
        style = element.style
        if "color" in style:
            assert contrast(style["color"], style["background-color"]) >= 4.5
        elif style.get("background-color", "transparent") != "transparent":
            assert element.text == "", "text in the theme's colour on a ground of ours"


@every_card
def test_grounds_lines_and_bars_can_be_told_from_both_pages_and_from_the_striped_rows_of_a_table(name):
    colours = set(re.findall(COLOUR, SHOWN[name][0])) - {"#ffffff"}
    stripes = ("#f5f5f5", "#212121")  # --jp-rendermime-table-row-background, light and dark
    assert colours
    for colour in colours:
        for page in (*PAGES, *stripes) if name in ("scorecard", "progress") else PAGES:
            assert contrast(colour, page) >= 3, f"{colour} on {page}"


@pytest.mark.parametrize(
    ("colour", "opacity", "page"),
    [
        ("#000000", 0.87, "#ffffff"),  # JupyterLab light: --jp-content-font-color1: rgba(0, 0, 0, 0.87)
        ("#ffffff", 1, "#111111"),  # JupyterLab dark
        ("#333333", 1, "#ffffff"),  # nbgrader's feedback: Bootstrap's body text
    ],
)
def test_faint_labels_are_readable_in_every_place(colour, opacity, page):
    assert contrast(blend(colour, page, opacity * float(MUTED)), page) >= 4.5


def test_the_same_result_gives_the_same_text_to_the_byte():
    again = score(
        1, "partial", tuple(replace(claim) for claim in PARTIAL.claims), notes=PARTIAL.notes, output=PARTIAL.output
    )
    assert both(again) == SHOWN["partial"]
    assert html_of(PARTIAL) == SHOWN["partial"][0]
    for html, _ in SHOWN.values():
        assert " id=" not in html and "0x" not in html


HOSTILE = (
    "<script>alert(1)</script> \"' onclick=x <img src=x onerror=y> </pre></li></section> &lt; <!-- `<b>` "
    "\x1b[31mred\x1b[0m\x00\u202e\ud800"
)


def hostile_cards():
    shown = Misconception(HOSTILE + "name", HOSTILE, HOSTILE + "step")
    claim = Claim(HOSTILE, False, ((HOSTILE, HOSTILE),), misconception=shown)
    about = {"lesson": HOSTILE, "exercise": HOSTILE, "possible": 1, "status": "partial"}
    everything = Score(0, **about, claims=(claim, Claim(HOSTILE, True)), notes=(HOSTILE,), output=HOSTILE)
    row = LessonProgress(1, HOSTILE, HOSTILE, 0, 1, True, 0, 0)
    cards = {
        "score": everything,
        "hint": Hint(HOSTILE, HOSTILE, 1, 2),
        "prediction": Prediction(HOSTILE, HOSTILE, HOSTILE, False),
        "solution": Solution(HOSTILE, HOSTILE, HOSTILE),
        "scorecard": ScoreCard(HOSTILE, (ScoreRow(HOSTILE, 0, 1, HOSTILE),), 1, 2, (HOSTILE,)),
        "progress": Progress((row,), (HOSTILE,)),
    }
    return {name: both(value) for name, value in cards.items()}


@pytest.mark.parametrize(("name", "shown"), hostile_cards().items())
def test_nothing_from_a_learner_becomes_markup(name, shown):
    html, text = shown
    root = tree(html)
    ours = {"section", "div", "h4", "p", "ul", "li", "dl", "dt", "dd", "pre", "code", "strong", "em", "span"}
    ours |= {"table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary"}
    for element in root.all()[1:]:
        assert element.name in ours
        assert element.attributes.keys() <= {"style", "scope", "role", "aria-hidden"}
    for outcome in (root.text, text):
        assert "<script>alert(1)" in outcome, "it is shown as what it is"
        assert not re.search("[\x00-\x08\x1b\u202e\ud800]", outcome) and "\\ud800" in outcome, "no file can hold it"


def test_a_card_stays_small_whatever_the_answer_prints_and_returns():
    flood = "many words and " * 300_000
    details = tuple(("got", flood + str(i)) for i in range(3))
    claim = Claim(flood, False, details, misconception=Misconception(flood, flood, flood))
    big = score(0, "partial", (claim,), notes=(flood,), output="line\n" * 1_000_000)
    html, text = both(big)
    assert len(html) < 15_000 and len(text) < 10_000
    assert max(map(len, text.split("\n"))) <= TEXT_WIDTH
    assert "more lines" in html and "more lines" in text
    one_word = str(score(0, "partial", (Claim("x" * 900, False, details=(("got", "y" * 900),)),), output="z" * 900))
    assert max(map(len, one_word.split("\n"))) <= TEXT_WIDTH


# A checked answer


def items(html):
    return [" ".join(item.text.split()) for item in tree(html).all("li")]


def test_what_first_fails_is_told_and_what_held_or_is_open_folded_into_one_line():
    html, text = SHOWN["partial"]
    told, also, *rest = items(html)
    assert told.startswith("✗does not hold: shares no memory with x") and also.startswith("Does not hold either: ")
    (folded,) = tree(html).all("details")
    assert folded.all("summary")[0].text == "2 of 4 claims held when tried, 1 claim not judged yet"
    assert [item.text for item in folded.all("li")] == [
        "✓held: has the values and the dtype of x",
        "✓held: carries no history",
        "-not judged yet: works on views",
    ]
    assert len(rest) == 3
    assert (
        "  2 of 4 claims held when tried, 1 claim not judged yet:\n"
        "    ✓ held: has the values and the dtype of `x`; carries no history\n"
        "    - not judged yet: works on views\n"
    ) in text


def test_a_failed_claim_names_the_misconception_shows_called_expected_got_and_gives_one_next_step():
    first = tree(html_of(PARTIAL)).all("li")[0]
    assert [paragraph.text for paragraph in first.all("p")][1:] == [
        "Likely misconception: “detach() makes a copy”",
        "detach gives a new tensor on the same memory, so an edit of one is seen in the other.",
        "Next: change one element of the result and look at x.",
    ]
    assert [term.text for term in first.all("dt")] == ["called", "expected", "got"]
    assert [value.text for value in first.all("dd")] == [text for _, text in FAILS.details]
    lines = (
        "      called    snapshot(f32[2, 3])\n      expected  a storage of its own\n      got       the storage of x\n"
    )
    assert lines in str(PARTIAL)
    for shown in SHOWN["partial"]:
        assert shown.count("Next:") == 1 and "change one element" in shown and "second step" not in shown


def test_after_the_next_step_a_card_shows_the_program_folded():
    known = replace(ALIAS, program="x = 1\nif x < 2:\n    print(x)", prints="1")
    shown = score(1, "partial", (replace(FAILS, misconception=known), ALSO_FAILS))
    folded = tree(html_of(shown)).all("details")[0]
    assert [typed.text for typed in folded.all("pre")] == ["x = 1\nif x < 2:\n    print(x)", "1"]
    program = "    Shown by a program:\n      x = 1\n      if x < 2:\n          print(x)\n"
    assert program + "      It prints:\n        | 1\n" in str(shown)
    assert not any("rogram" in told for told in SHOWN["partial"])


@pytest.mark.parametrize(
    "failed",
    [
        score(1, "partial", (HOLDS, replace(FAILS, misconception=replace(ALIAS, next_step="")))),
        score(0, "error", (OPEN,)),
        score(0, "error"),
        NOT_ATTEMPTED,
    ],
)
def test_without_a_step_of_its_own_a_card_points_to_the_hint(failed):
    for shown in both(failed):
        assert shown.count("Next:") == 1 and "gives a hint." in " ".join(shown.split())
    assert "lesson.hint('snapshot')" in [code.text for code in tree(html_of(failed)).all("code")]


def test_a_passed_card_is_short_and_asks_nothing_more():
    html, text = SHOWN["passed"]
    assert "Next" not in html and "hint" not in html
    assert text.split("\n") == [
        "snapshot: 2 of 2 points. Every claim held.",
        "",
        "  What was tried:",
        "    ✓ held: has the values and the dtype of `x`; carries no history",
    ]


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("passed", "snapshot: 2 of 2 points. Every claim held."),
        ("partial", "snapshot: 1 of 2 points."),
        ("not attempted", "snapshot: not attempted yet, 0 of 2 points."),
        ("error", "snapshot: 0 of 2 points. The answer raised an error."),
    ],
)
def test_the_result_is_a_heading_below_that_of_its_exercise(name, heading):
    html, text = SHOWN[name]
    assert [found.text for found in tree(html).all("h4")] == [heading]
    assert text.split("\n")[0] == heading


def test_one_mistake_is_told_once_and_what_fails_with_it_in_one_line():
    other = replace(FAILS, text="claim 2", misconception=replace(ALIAS, name="mistake 2"))
    nameless = replace(FAILS, text="claim 3", misconception=None)
    for shown in both(score(0, "partial", (FAILS, other, replace(FAILS, text="is not an alias"), nameless))):
        said = "Fails too, likely by the same mistake: is not an alias. Does not hold either: claim 2; claim 3."
        assert said in " ".join(shown.split())
        assert shown.count("detach() makes a copy") == 1 and "mistake 2" not in shown
    for shown in both(score(0, "partial", (nameless, replace(nameless, text="claim 4")))):
        assert "Does not hold either: claim 4." in shown


def test_output_and_notes_are_shown_as_they_were():
    html, text = SHOWN["partial"]
    (output,) = tree(html).all("pre")
    assert output.text == "step 1\n  step 2"
    assert "    | step 1\n    |   step 2\n" in text
    assert "Note: took 12.3 s" in tree(html).text and "  Note: took 12.3 s\n" in text


# The others


def test_a_prediction_shows_guess_and_answer_with_a_word_and_gives_nothing_away_unasked():
    for shown in SHOWN["asked"]:
        assert "secret" not in shown and "Your guess first" in shown
    assert SHOWN["right"][1].split("\n")[1:] == ["  ✓ right", "    you said  'a'", "    it is     'a'"]
    assert SHOWN["wrong"][1].split("\n")[1:] == ["  ✗ not what happens", "    you said  'a'", "    it is     'b'"]
    assert "✗not what happens" in tree(SHOWN["wrong"][0]).text


def test_the_last_hint_says_that_there_are_no_more():
    assert SHOWN["no hint"][1].startswith("snapshot: no more hints\n  You have seen all 3.")
    assert "This exercise has none." in str(Hint("snapshot", "", 0, 0))
    assert SHOWN["hint"][1].startswith("snapshot: hint 2 of 3\n")


def test_a_solution_keeps_its_lines():
    (source,) = tree(SHOWN["solution"][0]).all("pre")
    assert source.text == "def f(x):\n    return x < 1"
    assert "  def f(x):\n      return x < 1\n" in SHOWN["solution"][1]
    assert tree(SHOWN["no solution"][0]).all("pre") == []


@pytest.mark.parametrize(
    ("name", "columns", "rows"), [("scorecard", 4, ["snapshot", "mean_loss"]), ("progress", 5, ["00", "03", "04"])]
)
def test_a_table_has_a_caption_and_its_headings_have_a_scope(name, columns, rows):
    root = tree(SHOWN[name][0])
    assert len(root.all("caption")) == len(root.all("table")) == 1
    scopes = [heading.attributes["scope"] for heading in root.all("th")]
    assert scopes == ["col"] * columns + ["row"] * len(rows)
    assert [heading.text.split()[0] for heading in root.all("th")[columns:]] == rows
    assert all(len([cell for cell in row.children if isinstance(cell, Element)]) == columns for row in root.all("tr"))


def test_results_show_themselves():
    for value, name in ((Hint("snapshot", "", 3, 3), "no hint"), (CARD, "scorecard"), (COURSE, "progress")):
        assert (value._repr_html_(), repr(value)) == SHOWN[name]
    assert repr(PARTIAL) == "1.0", "nbgrader reads this as the points"
