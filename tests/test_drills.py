"""Random programs to practise on: they are true, fair and repeatable, and the line that they blame is the right one."""

import ast
import collections
import random
import re
from functools import cache

import numpy as np
import pytest
import torch

from course_utils import Lesson, progress
from course_utils.catalogue import COURSE, LESSONS
from course_utils.drills import LEVELS, TOPICS, Drill, drill
from course_utils.drills.moves import apart, as_typed, written
from course_utils.progress.history import Showing, record
from tests.test_card import tree

SEEDS = range(20)
EVERY = [(topic, level) for topic in TOPICS for level in LEVELS]
each_kind = pytest.mark.parametrize(("topic", "level"), EVERY)
# What a program has from a level on, and never below it.
MARKS = {
    "flags": {2: r"(?m)^\w[.\[]|Parameter|\.data|tolist|_like|\.arg|[<>]", 3: r"(?m)^    |layer|head"},
    "leaves": {2: r"backward\(\)", 3: r"(?m)^    "},
    "modes": {2: r"def |lambda|layer|_\(\w\)", 3: r"(?m)^        |\w\[1:\]"},
    "edits": {2: r"(?s)loss = .*\n\w = ", 3: r"numpy|div_|copy_\(\w\)$|\[2:\]|    \w\.copy_"},
    "gates": {2: r"no_grad|\[False", 3: r"optim"},
    "hooks": {2: r"args\[0\] \* |out \* ", 3: r"lambda grad"},
    "functions": {2: r"class ", 3: r"ctx\.kept|needs_input_grad|backward\(\)$"},
    "scale": {3: "-100"},
    "in_dims": {2: r"\[:, ", 3: r"\{"},
}


@cache
def programs(topic, level):
    return [drill(topic, seed, level) for seed in SEEDS]


def code(made):
    return "\n".join(made.lines)


def right_answers(made):
    return {question.key: question.answer for question in made.questions}


def wrong_answers(made):
    return {q.key: next(value for value in q.choices if value != q.answer) for q in made.questions}


# The programs.


@pytest.mark.parametrize("topic", TOPICS)
def test_each_edit_finds_in_its_line_what_it_edits(topic):
    for move in (move for group in TOPICS[topic].moves.values() for move in group):
        for edit in [move.without] if isinstance(move.without, str) else move.without:
            old, _, new = (part.strip(" ") for part in edit.partition("->"))
            assert old in move.text, f"{edit!r} edits nothing in {move.text!r}"
            edited = move.text.replace(old, new) if old else move.text
            holes, before = (set(re.findall(r"{[^{}]*[|.][^{}]*}", text)) for text in (edited, move.text))
            assert holes <= before, f"{edit!r} changes a hole of {move.text!r}"


@pytest.mark.slow
@each_kind
def test_what_is_said_of_a_program_is_so_and_without_the_line_that_decides_it_is_not(topic, level, request):
    read = TOPICS[topic].read
    for made in programs(topic, level)[: 3 if request.config.getoption("--tier") == "nightly" else 1]:
        found = apart(lambda made=made: read(made.lines))
        for question in made.questions:
            assert found[question.key] == question.answer, code(made)
            other = apart(lambda question=question: read(question.without))
            assert other[question.key] == question.otherwise != question.answer, code(made)
            pairs = enumerate(zip([*made.lines, ""], [*question.without, ""], strict=False), 1)
            assert question.line == next(number for number, (one, two) in pairs if one.strip() != two.strip())


@each_kind
def test_programs_are_short_enough_to_be_read_all_different_and_each_of_its_own_level(topic, level):
    made = programs(topic, level)
    assert len({code(one) for one in made}) == len(SEEDS)
    for one in made:
        assert 4 <= len(one.lines) <= (18 if "class " in code(one) else 12) and max(map(len, one.lines)) <= 80
        assert code(one).isascii() and 3 <= len(one.choices) <= 6 and len(set(right_answers(one).values())) > 1
        has = {at: bool(re.search(mark, code(one))) for at, mark in MARKS[topic].items()}
        assert has.get(level, True) and not has.get(level + 1, False), code(one)
        names = list(dict.fromkeys(re.findall(r"(?m)^ *([a-z]) = ", code(one))))
        assert names == sorted(names) or topic == "in_dims", "names come in the order of the alphabet"
        ast.parse(code(one))


@each_kind
def test_the_same_seed_gives_the_same_program(topic, level):
    made = programs(topic, level)[0]
    assert drill(topic, seed=made.seed, level=level) == made


@each_kind
def test_no_answer_is_lopsided(topic, level):
    by_kind = collections.defaultdict(list)
    for made in programs(topic, level):
        for question in made.questions:
            # Of numbers it is asked how often there is none.
            answer = question.answer == "none" if topic == "hooks" else question.answer
            by_kind[question.asks].append(answer)
    low = 0.15 if topic in ("gates", "hooks", "scale", "in_dims") else 0.2
    for asks, answers in by_kind.items():
        shares = {answer: answers.count(answer) / len(answers) for answer in set(answers)}
        if len(answers) >= len(SEEDS):
            limit = 0.1 if isinstance(answers[0], str) else low
            assert min(shares.values()) >= limit and max(shares.values()) <= 1 - limit, (asks, shares)


# Names that need no lesson: Python's, those of tensors made and of sums done, of losses and optimizers.
PLAIN = {"any", "append", "class", "close", "def", "else", "for", "join", "lambda", "len", "next", "range", "return"}
PLAIN |= {"round", "start", "staticmethod", "target", "update", "with", "yield", "zip"}
PLAIN |= {"full", "ones", "ones_like", "rand", "randint", "randn", "zeros", "zeros_like", "IN_DIMS", "DIVISOR"}
PLAIN |= {"add", "cat", "cos", "exp", "mean", "mul", "reshape", "sigmoid", "sin", "sqrt", "square", "stack", "sum"}
PLAIN |= {"numel", "tanh", "where", "add_", "copy_", "div_", "mul_", "zero_"}
PLAIN |= {"Adam", "SGD", "cross_entropy", "l1_loss", "mse_loss", "smooth_l1_loss"}


@pytest.mark.parametrize("topic", TOPICS)
def test_programs_and_answers_have_no_name_that_no_lesson_up_to_theirs_has_shown(topic):
    names = [info.name for info in LESSONS]
    last = max(map(names.index, TOPICS[topic].lessons))
    notebooks = [(COURSE / "notebooks" / f"{info.notebook}.ipynb").read_text("utf-8") for info in LESSONS[: last + 1]]
    known = PLAIN | set(re.findall(r"\w+", " ".join(notebooks).replace(r"\n", " ")))
    for made in [made for level in LEVELS for made in programs(topic, level)]:
        own = re.findall(r"(\w+) = |(?:class|def) (\w+)|\"(\w+)\":", code(made))
        asked = set(re.findall(r"[A-Za-z]\w\w+", f"{code(made)} {' '.join(made.choices)}")) - set(sum(own, ()))
        assert {name for name in asked if name not in made.task} <= known, code(made)


def test_the_topic_on_the_page_for_contributors_works():
    page = (COURSE / "CONTRIBUTING.md").read_text(encoding="utf-8")
    topic = {}
    exec(re.search(r"## Add a drill topic.*?```python\n(.*?)```", page, re.DOTALL)[1], topic)
    for level in LEVELS:
        lines, questions = apart(lambda level=level: written(topic["TOPIC"], level, random.Random(level)))
        space = {"torch": torch}
        exec("\n".join(lines), space)
        first = space[lines[0][0]].untyped_storage().data_ptr()
        for question in questions:
            assert question.answer == (space[question.key].untyped_storage().data_ptr() == first)


# The check.


@each_kind
def test_right_answers_pass_and_wrong_ones_are_told_the_line_and_the_reason(topic, level):
    for made in programs(topic, level)[:2]:
        found = right_answers(made)
        score = made.check(found)
        assert (float(score), score.possible, score.status) == (len(found), len(found), "passed"), str(score)
        score = made.check(wrong_answers(made))
        assert (float(score), score.status) == (0.0, "partial")
        for one, question in zip(score.answers, made.questions, strict=True):
            assert one.explanation == f"Line {question.line} decides. {question.explanation}"
            assert (f"line {question.line}", made.lines[question.line - 1].strip()) in one.details
            assert ("PyTorch", as_typed(found[question.key])) in one.details
            assert " ".join(one.explanation.split()) in " ".join(str(score).split())


@pytest.mark.parametrize("stub", [..., None, {}, {...}, "blank", "none"])
def test_without_an_answer_nothing_is_judged(stub):
    made = drill("edits", seed=5, level=3)
    stub = {"blank": dict.fromkeys(made.choices, ...), "none": dict.fromkeys(made.choices)}.get(str(stub), stub)
    score = made.check(stub)
    assert (float(score), score.status, score.answers) == (0.0, "not attempted", ())
    assert "not attempted" in str(score) and "not attempted" in score._repr_html_()


@pytest.mark.parametrize("form", [bool, np.bool_, np.int64, int, float, torch.tensor, str, " {} ".format])
def test_truth_values_count_in_any_of_the_usual_forms(form):
    for topic in TOPICS:
        made = drill(topic, seed=11)
        given = {key: form(value) if value in (True, False) else value for key, value in right_answers(made).items()}
        assert made.check(given).status == "passed"


@pytest.mark.parametrize("form", [str.upper, str.title, " {} ".format])
def test_texts_count_without_regard_to_case_and_outer_spaces(form):
    made = drill("edits", 3)
    found = right_answers(made)
    assert made.check({**found, "backward": form(found["backward"])}).status == "passed"


def test_a_number_or_none_may_stand_without_quotes():
    for topic, other in (("hooks", float), ("gates", str)):
        found = next(made for made in programs(topic, 1) if "none" in right_answers(made).values())
        given = {
            k: None if v == "none" else v if v in (True, False) else other(v) for k, v in right_answers(found).items()
        }
        assert found.check(given).status == "passed"


def test_a_missing_answer_is_no_error_and_gives_nothing_away():
    made = drill("leaves", seed=2)
    found = right_answers(made)
    left_out, *others = found
    for given in ({key: found[key] for key in others}, {**found, left_out: ...}, {**found, left_out: None}):
        score = made.check(given)
        assert (float(score), score.status) == (len(others), "partial")
        assert score.answers[0] == (left_out, None, "", ()) and f"no answer yet: `{left_out}`" in str(score)


def test_what_is_no_answer_to_the_question_is_told_what_is():
    made = drill("edits", seed=1)
    found = right_answers(made)
    assert "'error', 'wrong gradient' or 'right gradient'" in str(made.check({**found, "backward": "crash"}))
    key = next(key for key in made.choices if key != "backward")
    assert "True or False" in str(made.check({**found, key: "error"}))
    assert "no answer to the question" in str(made.check({**found, key: object()}))
    assert "a dict" in str(made.check([True, False]))
    assert "'other'" in str(made.check({**found, "other": True}))


def test_progress_counts_the_first_answer_to_each_key():
    made = drill("flags", seed=4)
    found = right_answers(made)
    key = next(iter(found))
    made.check({**found, key: not found[key]})
    made.check(found)
    assert f"drill flags, level 1  {len(found) - 1} of {len(found)} right" in repr(progress())


@pytest.mark.parametrize("topic", TOPICS)
def test_what_the_caller_has_set_makes_no_difference_and_stays(topic):
    found = [right_answers(made) for made in programs(topic, 2)[:2]]
    torch.manual_seed(5)
    before = torch.get_rng_state(), random.getstate()
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.autograd.set_detect_anomaly(True), torch.inference_mode():
            assert [right_answers(drill(topic, seed, 2)) for seed in range(2)] == found
            assert torch.is_anomaly_enabled() and torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        assert torch.get_default_dtype() == torch.float64 and torch.ones(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]


# What is shown.


def test_a_drill_and_its_score_show_all_that_there_is_in_both_forms(capfd):
    for topic, level in EVERY:
        made = drill(topic, seed="<b>&", level=level)
        shown, html = repr(made), tree(made._repr_html_()).text
        assert isinstance(made, Drill) and max(map(len, shown.split("\n"))) <= 88 and "seed <b>&" in html
        for number, line in enumerate(made.lines, 1):
            assert f"{number:2}  {line}" in shown and line in html
        assert all(as_typed(value) in shown for values in made.choices.values() for value in values)
        cell = shown[shown.index("drill(") :]
        assert eval(cell, {"drill": drill}).status == "not attempted"
        assert eval(cell[: cell.index(".check")], {"drill": drill}) == made
        text = tree(made.check({**wrong_answers(made), "extra": 1})._repr_html_()).text
        assert all(question.explanation.replace("`", "") in text for question in made.questions)
        assert "'extra'" in text and f"0 of {len(made.questions)} right" in text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("topic", [*TOPICS, "review"])
def test_a_question_is_a_sentence_and_its_choices_stand_as_they_are_typed(topic):
    passed("detach", "snapshot")
    for level in LEVELS:
        made = drill(topic, 1, level)
        shown = " ".join(f"{made} {made.check(wrong_answers(made))}".split())
        for question in made.questions:
            *others, last = question.choices
            choices = f"{', '.join(map(as_typed, others))} or {as_typed(last)}"
            assert f": {question.asks} Answer {choices}." in shown
            assert re.fullmatch(r"[A-Z].*[?.]", question.asks), "a question begins with a capital and ends with ? or ."
            given = [made.check({question.key: eval(as_typed(value))}) for value in question.choices]
            assert not any("no answer to the question" in str(score) for score in given)
        # What a learner said is shown as it was said.
        assert not re.search(r"(?<!you said )'(-?[\d.]+|True|False)'", shown), shown


def test_a_card_leads_on_to_another_program_and_after_success_to_the_next_level():
    made = drill("flags", seed=3, level=2)
    assert '`drill("flags", level=3)` a harder one' in " ".join(str(made.check(right_answers(made))).split())
    assert "level=3" not in str(made.check(wrong_answers(made)))
    assert "harder" not in str(drill("flags", 3, 3).check(right_answers(drill("flags", 3, 3))))


def test_a_seed_may_be_any_whole_number_or_text_and_without_one_each_drill_is_another():
    assert drill("flags", np.int64(7)).lines == drill("flags", 7).lines == drill("flags", " 7 ").lines
    assert len({drill("flags", seed).lines for seed in ("maria.1", "maria.2", -1, 1)}) == 4
    made = [drill("leaves") for _ in range(6)]
    assert len({one.seed for one in made}) >= 5 and all(f"seed={one.seed}" in repr(one) for one in made)


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"topic": "flag"}, ValueError, ", ".join([*TOPICS, "review"])),
        ({"topic": 3}, ValueError, "one of flags"),
        ({"topic": "flags", "level": 4}, ValueError, "level 1, 2 or 3"),
        ({"topic": "flags", "level": "2"}, ValueError, "level 1, 2 or 3"),
        ({"topic": "flags", "seed": 1.5}, TypeError, "a whole number, a text, or None"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(asked, error, text):
    with pytest.raises(error, match=text):
        drill(**asked)


# A colleague's pull request.


def passed(lesson, exercise, told=()):
    record(lesson, exercise, earned=0, possible=1, status="partial", told=told)
    record(lesson, exercise, earned=1, possible=1, status="passed")


def test_a_review_shows_a_mistake_in_an_exercise_that_was_passed_and_what_the_check_sees_of_it():
    passed("detach", "snapshot")
    exercise = Lesson("detach").exercises["snapshot"]
    right = [line for line in exercise.source.strip("\n").split("\n") if "###" not in line]
    for seed in range(3):
        made = drill("review", seed=seed)
        found = right_answers(made)
        wrong = [number for number, pair in enumerate(zip(right, made.lines, strict=True), 1) if pair[0] != pair[1]]
        assert wrong == [int(found["line"])] and made == drill("review", seed=seed)
        space = {"torch": torch}
        exec(code(made), space)
        claim = next(one for one in Lesson("detach").check("snapshot", space["snapshot"]).claims if not one.held)
        assert dict(claim.details)["got"] == found["seen"]
        assert made.check(found).status == "passed"
        assert claim.misconception.explanation.split(".")[0] in " ".join(str(made.check(wrong_answers(made))).split())


def test_a_review_never_shows_an_exercise_that_is_open():
    with pytest.raises(ValueError, match="an exercise that you have passed") as refused:
        drill("review")
    assert "progress()" in str(refused.value)
    record("detach", "snapshot", earned=0, possible=1, status="partial")
    passed("no longer taught", "snapshot")
    with pytest.raises(ValueError, match="an exercise that you have passed"):
        drill("review")


def test_a_review_takes_what_the_learner_once_had_wrong_first():
    passed("requires_grad", "freeze")
    known = Lesson("detach").exercises["snapshot"].misconceptions["history"]
    passed("detach", "snapshot", [Showing(known.home, "a claim", known.name, *known.place)])
    for seed in range(3):
        made = drill("review", seed=seed)
        assert "`snapshot`" in made.task and made.because == f"You once had “{known.name}” in `snapshot`."
