"""Claims that compare, through the front door: an exercise of three lines, and answers to it."""

import json

import numpy
import pytest
import torch

from course_utils.checks.compare import AtMost, agree, alike, compared, edited, outcome
from course_utils.checks.judge import judge

TEXT = """
number = 1
points = 4
minutes = 3
hints = ["Half of it.", "All of it."]
raises = [["no halves", "text"]]
answer = '''
def halved(x, parts):
    if not parts:
        raise ValueError("no parts")
    return [x / 2 for _ in range(parts)]
'''
"""
MISTAKE = """
[misconceptions.{key}]
name = "{key} is a mistake"
explained = "Where it is told"
explanation = "So it is."
next_step = "Look."
wrong = {wrong}
"""
WAYS = {
    "doubled": [["x / 2", "x * 2"], ["x / 2", "x + x"]],
    "one": [["range(parts)", "range(1)"]],
    "edits": [["    return", "    x += 1\n    return"]],
    "empty": [["if not parts:", "if False:"], ["raise ValueError(", "return print("]],
    "text": [["x / 2", "x // 2"]],
}


@pytest.fixture
def halved(tmp_path):
    """An exercise whose looks see values, a count of bytes, and an error."""
    (tmp_path / "detach").mkdir()
    path = tmp_path / "detach" / "halved.toml"
    path.write_text(TEXT + "".join(MISTAKE.format(key=key, wrong=json.dumps(wrong)) for key, wrong in WAYS.items()))
    made = compared(str(path))

    @made.looks("gives halves", weight=2)
    def _(trial):
        for parts in (1, 3):
            yield "the halves", trial.call(trial.randn(4), parts)

    @made.looks("makes few", key="one")
    def _(trial):
        return {"how many": AtMost(len(trial.call(trial.randn(2), 2)))}

    @made.looks("refuses none")
    def _(trial):
        return {"for no parts": outcome(lambda: trial.call(trial.randn(2), 0))}

    return made


def names(score):
    return [
        claim.misconception.name.split()[0] if claim.misconception else "" for claim in score.claims if not claim.held
    ]


def halves(x, parts, factor=0.5):
    if not parts:
        raise ValueError("none")
    return [x * factor] * parts


def told(score):
    return [dict(claim.details) for claim in score.claims if not claim.held]


def test_an_answer_that_does_what_the_model_does_is_right(halved):
    assert judge(halved, halves, "detach").status == "passed"


def test_the_mistake_that_does_what_the_answer_did_is_its_name(halved):
    score = judge(halved, lambda x, parts: halves(x, parts, 2.0), "detach")
    assert names(score) == ["doubled"]
    (details,) = told(score)
    assert details["expected"].startswith("the halves: ") and details["got"].endswith(", 4 times that"), details


def test_a_name_that_is_given_several_times_is_compared_each_time(halved):
    score = judge(halved, lambda x, parts: halves(x, parts)[:1], "detach")
    assert names(score) == ["one"]
    assert "3" in told(score)[0]["called"]


def test_what_no_mistake_does_has_the_name_of_the_claim_or_none(halved):
    score = judge(halved, lambda x, parts: halves(x * 7, 4 * parts), "detach")
    assert names(score) == ["", "one"]
    assert told(score)[1] | {"called": ""} == {"called": "", "expected": "how many: at most 2", "got": "8"}


def test_an_error_is_known_by_what_it_says(halved):
    def refuses(x, parts):
        raise RuntimeError("there are no halves here")

    score = judge(halved, refuses, "detach")
    assert names(score)[:2] == ["text", "text"]
    assert told(score)[2]["expected"] == "for no parts: ValueError: no parts"


def test_another_error_than_the_model_s_is_no_answer(halved):
    def passes(x, parts):
        return [x / 2] * parts

    assert names(judge(halved, passes, "detach")) == ["empty"]


def test_what_a_known_mistake_prints_is_not_on_the_card(halved):
    def counted(x, parts):
        print("for", parts)
        return [x / 2] * parts

    assert judge(halved, counted, "detach").output.splitlines() == ["for 1", "for 3", "for 2", "for 0"]


def test_what_an_answer_changes_has_the_name_of_the_mistake_that_changes_it(halved):
    def edits(x, parts):
        found = halves(x.clone(), parts)
        x += 1
        return found

    assert names(judge(halved, edits, "detach")) == ["edits"]


def test_what_the_claim_can_make_nothing_of_is_said(halved):
    @halved.looks("is a tensor's flag")
    def _(trial):
        return {"requires grad": trial.call(trial.randn(2), 1)[0].requires_grad}

    score = judge(halved, lambda x, parts: [each.tolist() for each in halves(x, parts)], "detach")
    assert "requires_grad" in told(score)[-1]["could not be judged"]


def test_a_look_that_is_broken_lets_nothing_pass(halved):
    @halved.looks("is looked at by a broken look")
    def _(trial):
        return {"it": trial.call(trial.randn(2), 1)[0].nothing_of_the_kind}

    score = judge(halved, halves, "detach")
    assert score.status == "partial" and "nothing_of_the_kind" in told(score)[0]["could not be judged"]


@pytest.mark.parametrize(
    ("got", "right", "enough", "same_mistake"),
    [
        (AtMost(3), AtMost(4), True, False),
        (AtMost(41), AtMost(40), False, True),
        (1.0, 1.0 + 1e-9, True, True),
        (float("nan"), float("nan"), True, True),
        (True, 1.0, False, False),
        (1, True, False, False),
        ({"b": 1, "a": torch.ones(2)}, {"a": torch.ones(2, dtype=torch.float64), "b": 1}, True, True),
        ([torch.ones(2)], (torch.ones(2),), True, True),
        ([torch.ones(2), None], [torch.ones(2)], False, False),
        (torch.ones(1), torch.ones(()), False, False),
        (None, torch.ones(()), False, False),
        (numpy.ones(2), numpy.ones(2) + 1e-9, True, True),
        (numpy.ones(2), numpy.zeros(3), False, False),
        (numpy.ones(2), torch.ones(2), False, False),
    ],
)
def test_what_agrees_and_what_is_alike(got, right, enough, same_mistake):
    assert (agree(got, right), alike(got, right)) == (enough, same_mistake)


def test_an_edit_whose_text_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"halved, 'one': the model answer has no 'x / 3'"):
        edited("return x / 2", ["x / 3", "x"], "halved, 'one'")
