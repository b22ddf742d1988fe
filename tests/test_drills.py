"""Random programs to practise on: they are valid, fair and repeatable, and the line that they blame is the right one.

``drill_oracle`` runs each program with code of its own: as it is shown, and without the effect of the line that
decides.
"""

import ast
import collections
import hashlib
import importlib
import math
import os
import pickle
import random
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

from course_utils.catalogue import COURSE, LESSONS
from course_utils.drills import LEVELS, TOPICS, Drill, drill
from course_utils.drills import run as drill_run
from course_utils.drills.page import LINE_LENGTH, MOST_LINES, MOST_LINES_WITH_CLASS, NAMES, has_marks
from course_utils.drills.programs import Draw
from tests.drill_oracle import in_fresh_thread, observe

SEEDS, MANY_SEEDS = range(30), range(300)
EVERY = [(topic, level) for topic in TOPICS for level in LEVELS]
CANDIDATES = ("scale", "in_dims")  # each key is something to try, so what it is decides more than where it stands

each_kind = pytest.mark.parametrize(("topic", "level"), EVERY)


@cache
def programs(topic, level):
    return [drill(topic, seed, level) for seed in SEEDS]


def module_of(topic):
    return importlib.import_module(f"course_utils.drills.{topic}")


def right_answers(made):
    return {question.key: question.answer for question in made.program.questions}


def wrong_answers(made):
    """A wrong value for each key."""
    found = right_answers(made)
    return {key: next(value for value in values if value != found[key]) for key, values in made.choices.items()}


# The programs.


@each_kind
def test_every_answer_is_what_pytorch_does_with_the_program_that_is_shown(topic, level):
    for made in programs(topic, level)[:12]:  # at night 300
        expect_true(made)


def expect_true(made):
    """What the drill says of its program is so, and of the program without the effect of the line that decides."""
    for question in made.program.questions:
        where = f"{made.topic}, level {made.level}, seed {made.seed}, {question.key}\n{made.code}"
        without = "\n".join(question.without)
        assert observe(made.topic, made.program.lines, question) == question.answer, where
        assert observe(made.topic, question.without, question) == question.otherwise, f"{where}\n\n{without}"
        assert question.answer != question.otherwise and question.answer in made.choices[question.key], where


@each_kind
def test_programs_are_short_enough_to_be_read(topic, level):
    for made in programs(topic, level):
        lines = made.program.lines
        most = MOST_LINES_WITH_CLASS if "class " in made.code else MOST_LINES
        assert 4 <= len(lines) <= most <= 18 and MOST_LINES == 12
        assert max(map(len, lines)) <= LINE_LENGTH == 80
        assert made.code.isascii() and "\t" not in made.code
        assert 3 <= len(made.choices) <= 6
        ast.parse(made.code)


@pytest.mark.parametrize("topic", [*TOPICS])
def test_higher_levels_have_longer_programs(topic):
    lengths = [sum(len(made.program.lines) for made in programs(topic, level)) for level in LEVELS]
    # Levels 2 and 3 of edits differ by 0.2 lines, which the sum over 30 programs does not show.
    assert lengths == sorted(lengths) or (topic == "edits" and lengths[0] < min(lengths[1:]))


@each_kind
def test_each_level_has_what_the_one_below_it_never_has(topic, level):
    assert all(has_marks(made.code, module_of(topic).MARKS, level) for made in programs(topic, level))


def test_edits_of_level_2_go_through_another_name_and_those_of_level_3_are_of_other_kinds():
    def later_names(level):
        return [re.findall(r"(?m)^\w = ", made.code.split("loss = ")[1]) for made in programs("edits", level)]

    assert not any(later_names(1))
    assert sum(map(bool, later_names(2))) > 0.7 * len(SEEDS)
    kinds = r"numpy", r"optim", r"copy_", r"\.data = ", r"\[2:\]", r"\.div_\([24]\)", r"    \w = \w(\[|\.view)"
    shares = [
        sum(any(re.search(kind, made.code) for kind in kinds) for made in programs("edits", level)) for level in LEVELS
    ]
    assert shares[:2] == [0, 0] and shares[2] > 0.7 * len(SEEDS)


def test_level_2_of_scale_has_parts_that_differ_or_rows_of_several_numbers():
    def plain(code):
        rows, chunk = re.search(r"\((\d+), ", code)[1], re.search(r"split\((\d+)\)", code)[1]
        return int(rows) % int(chunk) == 0 and ("cross_entropy" in code or bool(re.search(r"randn\(\d+, 1\)", code)))

    assert all(plain(made.code) for made in programs("scale", 1))
    assert not any(plain(made.code) for made in programs("scale", 2))


# Names that need no lesson: Python's, those of tensors made and of sums done, of losses and optimizers.
PLAIN = {"any", "append", "class", "close", "def", "else", "for", "join", "lambda", "len", "next", "range", "return"}
PLAIN |= {"round", "start", "staticmethod", "target", "update", "with", "yield", "zip"}
PLAIN |= {"arange", "full", "linspace", "ones", "ones_like", "rand", "randint", "randn", "zeros", "zeros_like"}
PLAIN |= {"abs", "add", "cat", "cos", "cumsum", "exp", "flip", "max", "maximum", "mean", "mul", "neg", "norm", "relu"}
PLAIN |= {"reshape", "sigmoid", "sin", "softmax", "sqrt", "square", "stack", "sum", "tanh", "unsqueeze", "where"}
PLAIN |= {"add_", "copy_", "div_", "fill_", "mul_", "sub_", "zero_", "IN_DIMS", "DIVISOR"}
PLAIN |= {"Adam", "RMSprop", "SGD", "cross_entropy", "l1_loss", "mse_loss", "smooth_l1_loss"}


@pytest.mark.parametrize("topic", TOPICS)
def test_programs_and_answers_have_no_name_that_no_lesson_up_to_theirs_has_shown(topic):
    names = [info.name for info in LESSONS]
    last = max(map(names.index, module_of(topic).LESSONS))
    notebooks = [(COURSE / "notebooks" / f"{info.notebook}.ipynb").read_text("utf-8") for info in LESSONS[: last + 1]]
    known = PLAIN | set(re.findall(r"\w+", " ".join(notebooks).replace(r"\n", " ")))
    for made in [made for level in LEVELS for made in programs(topic, level)]:
        own = re.findall(r"(\w+) = |(?:class|def) (\w+)|\"(\w+)\":", made.code)
        asked = set(re.findall(r"[A-Za-z]\w\w+", f"{made.code} {' '.join(made.choices)}")) - set(sum(own, ()))
        assert {name for name in asked if name not in made.task} <= known, made.code


def test_level_2_of_in_dims_asks_for_one_negative_dimension_at_most():
    keys = [key for made in programs("in_dims", 2) for key in made.choices]
    assert max(key.count("-1") for key in keys) == 1
    assert any("out_dims=1" in made.code for made in programs("in_dims", 2))


@each_kind
def test_names_come_in_the_order_of_the_alphabet_and_every_one_is_made_before_its_use(topic, level):
    for made in programs(topic, level):
        made_here = [node.id for node in ast.walk(ast.parse(made.code)) if isinstance(node, ast.Name)]
        firsts = [name for name in dict.fromkeys(re.findall(r"^ *([a-z]) = ", made.code, flags=re.MULTILINE))]
        assert firsts == sorted(firsts) and set(firsts) <= set(NAMES)
        assert set(firsts) <= set(made_here)


# The seeds.


def renamed(code):
    """The program with its names numbered in order of appearance: what is left beside the choice of names."""
    seen = {}
    return re.sub(r"\b[a-z]\b", lambda match: seen.setdefault(match[0], f"name{len(seen)}"), code)


def expect_no_two_equal(codes):
    """The birthday bound, from a part of the program that is certainly uniform.

    The names of a program with k of them are one of C(19, k) sets, each as likely as the others, and independent of the
    rest of the program. So two seeds with the same rest give the same program with probability 1 / C(19, k), and chance
    allows (pairs with the same rest) / C(19, k) equal programs among them: under 0.05 for 300 seeds, which is none.
    """
    assert len(set(codes)) == len(codes)
    groups = collections.Counter(map(renamed, codes))
    expected = 0.0
    for rest, count in groups.items():
        names = len(set(re.findall(r"\bname\d+\b", rest)))
        expected += math.comb(count, 2) / math.comb(len(NAMES), names)
    assert expected < 0.05
    assert len(groups) > 0.9 * len(codes), "the programs differ in more than their names"


@each_kind
def test_no_two_seeds_of_a_round_give_the_same_program(topic, level):
    expect_no_two_equal([made.code for made in programs(topic, level)])


@pytest.mark.nightly
@pytest.mark.slow
@each_kind
def test_hundreds_of_programs_differ_and_are_what_they_say(topic, level):
    made = [drill(topic, seed, level) for seed in MANY_SEEDS]
    expect_no_two_equal([one.code for one in made])
    for one in made:
        expect_true(one)


@each_kind
def test_the_same_seed_gives_the_same_program(topic, level):
    for made in programs(topic, level)[:10]:
        again = drill(topic, seed=made.seed, level=level)
        assert (again.code, again.program) == (made.code, made.program)


# Changing a topic changes every program that was ever handed out by its seed: then, and only then, these change.
PRINTS = {
    ("flags", 1): "185f11cf08949045",
    ("flags", 2): "75aa7be27ab2a8c2",
    ("flags", 3): "7a48e906cd3751f7",
    ("leaves", 1): "ef9ede0accfc24aa",
    ("leaves", 2): "b7b81adefe7ae8c1",
    ("leaves", 3): "4f2b0fd93058a518",
    ("modes", 1): "c43b0a2daef386b1",
    ("modes", 2): "dad18f6f455c6fb9",
    ("modes", 3): "da9e91960d58fc9e",
    ("edits", 1): "6b5d8722562f9e51",
    ("edits", 2): "d9ec3d4dc9965483",
    ("edits", 3): "ce855b77cab10768",
    ("gates", 1): "41e1525a7492265a",
    ("gates", 2): "9720e18d02488b86",
    ("gates", 3): "3d3e138d65203ca2",
    ("hooks", 1): "e8c68ea76067ac09",
    ("hooks", 2): "bcaea5fb4faeee24",
    ("hooks", 3): "d85a3764281b3516",
    ("functions", 1): "cc78e321244703d3",
    ("functions", 2): "e1dc0d8ac882f742",
    ("functions", 3): "524ec60259b59835",
    ("scale", 1): "7c3fee945b4511ff",
    ("scale", 2): "ee03e06a07773745",
    ("scale", 3): "706d19fa4d8821aa",
    ("in_dims", 1): "03fc9300793d7717",
    ("in_dims", 2): "042870fce5aa1993",
    ("in_dims", 3): "0d134edd80c7de7b",
}


def print_of(topic, level):
    text = "\n\n".join(made.code for made in programs(topic, level)[:20])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@each_kind
def test_seeds_keep_their_programs_from_machine_to_machine_and_version_to_version(topic, level):
    assert print_of(topic, level) == PRINTS[topic, level]


def test_programs_do_not_depend_on_the_hash_seed_of_python():
    source = (
        "from course_utils.drills import drill; print(*[drill('modes', s, 3).code for s in range(20)], sep='\\n\\n')"
    )
    other = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    environment = {**os.environ, "PYTHONHASHSEED": other}
    shown = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout == "\n\n".join(made.code for made in programs("modes", 3)[:20]) + "\n"


def test_every_draw_is_made_of_the_one_generator_that_python_promises_to_keep():
    draw, plain = Draw("text"), random.Random("text")
    assert [draw.below(10) for _ in range(20)] == [int(plain.random() * 10) for _ in range(20)]


def test_without_a_seed_each_drill_is_another_one_and_shows_how_to_have_it_again():
    state = random.getstate()
    made = [drill("leaves") for _ in range(10)]
    assert len({one.seed for one in made}) >= 9
    assert random.getstate() == state
    for one in made:
        assert f"seed={one.seed}" in repr(one)
        assert drill("leaves", one.seed).code == one.code


def test_a_seed_may_be_any_whole_number_or_text():
    assert drill("flags", np.int64(7)).code == drill("flags", 7).code == drill("flags", " 7 ").code
    assert drill("flags", "maria.1").code != drill("flags", "maria.2").code
    assert drill("flags", -1).code != drill("flags", 1).code


# The answers.


def share(values, value):
    return sum(v == value for v in values) / len(values)


@each_kind
def test_no_answer_is_lopsided(topic, level):
    by_kind = collections.defaultdict(list)
    for made in programs(topic, level):
        for key, value in right_answers(made).items():
            kind = "candidate" if topic in CANDIDATES else re.sub(r"^[a-z](?![a-z])", "name", key)
            # Of numbers it is asked whether one is named more often than the others, and how often there is none.
            name = "number" if topic == "hooks" and value != "nothing" else value
            by_kind["any" if topic == "hooks" else kind].append(name)
    low, high = (0.25, 0.75) if topic in ("flags", "leaves", "modes", "edits") else (0.15, 0.85)
    for name, values in by_kind.items():
        if len(values) < 30:  # a share of fewer says little about the generator
            continue
        if isinstance(values[0], bool):
            assert low <= share(values, True) <= high, (name, share(values, True), len(values))
        elif topic != "hooks":
            shares = [share(values, value) for value in set(values)]
            assert max(shares) <= high and min(shares) >= 0.1, (name, collections.Counter(values))
        elif level != 2:  # where nothing keeps a hook from firing
            assert 0.05 <= share(values, "nothing") <= high


@each_kind
def test_every_program_asks_for_more_than_one_answer(topic, level):
    for made in programs(topic, level):
        assert len(set(right_answers(made).values())) >= 2


@pytest.mark.parametrize("level", LEVELS)
def test_right_means_the_gradient_of_the_loss_as_it_was_computed(level):
    """Against finite differences of the loss, for the programs whose leaves are not edited before their use."""
    compared = collections.Counter()
    for made in programs("edits", level):
        found, loss = right_answers(made)["backward"], made.code.index("loss = ")
        edits_a_leaf_first = "no_grad" in made.code[:loss]
        converts = re.search(r"\.(float|double)\(\)", made.code)  # what copies in float64 is another one
        if found == "error" or edits_a_leaf_first or converts:
            continue
        agree = in_fresh_thread(lambda lines=made.program.lines: _gradients_agree(lines))
        assert agree == (found == "right gradient"), f"seed {made.seed}\n{made.code}"
        compared[found] += 1
    assert min(compared.values()) >= 4 and len(compared) == 2


def _gradients_agree(lines, step=1e-6):
    torch.set_default_dtype(torch.float64)
    try:
        return _agree(lines, step)
    finally:
        torch.set_default_dtype(torch.float32)


def _agree(lines, step):
    end = next(number for number, line in enumerate(lines, 1) if line.startswith("loss = "))

    def run_to_loss(name="", index=0, change=0.0):
        space = {"torch": torch}
        for line in lines[:end]:
            exec(line, space)
            if line.startswith(f"{name} = "):
                with torch.no_grad():
                    space[name][index] += change
        return space

    def loss(*change):
        return run_to_loss(*change)["loss"].item()

    tensors = {name: value for name, value in run_to_loss().items() if isinstance(value, torch.Tensor)}
    leaves = [name for name, value in tensors.items() if value.is_leaf and value.requires_grad]
    space = {"torch": torch}
    exec("\n".join(lines), space)
    for name in leaves:
        for index, slope in enumerate(space[name].grad.tolist()):
            measured = (loss(name, index, step) - loss(name, index, -step)) / (2 * step)
            if not math.isclose(measured, slope, rel_tol=1e-4, abs_tol=1e-7):
                return False
    return True


# The line that is blamed.


@each_kind
def test_the_card_names_the_line_whose_effect_is_taken_out(topic, level):
    for made in programs(topic, level):
        for question in made.program.questions:
            pairs = enumerate(zip(made.program.lines, question.without, strict=False), 1)
            changed = next(number for number, (line, other) in pairs if line != other)
            # A hook that comes too late is proved by registering it earlier, a result's `.grad` by a line after it.
            moved = f"With it before line {changed}", "after it"
            assert changed == question.line or any(words in question.explanation for words in moved), question


# The check.


@each_kind
def test_right_answers_pass_and_wrong_ones_are_told_the_line_and_the_rule(topic, level):
    for made in programs(topic, level)[:8]:
        found = right_answers(made)
        score = made.check(found)
        assert (float(score), score.possible, score.status) == (len(found), len(found), "passed"), str(score)
        assert not any(claim.misconception for claim in score.claims)

        score = made.check(wrong_answers(made))
        assert (float(score), score.status) == (0.0, "partial")
        for claim, question in zip(score.claims, made.program.questions, strict=True):
            assert claim.misconception.explanation == f"Line {question.line} decides. {question.explanation}"
            assert (f"line {question.line}", made.program.lines[question.line - 1].strip()) in claim.details
            assert ("PyTorch", repr(found[question.key])) in claim.details
            assert " ".join(claim.misconception.explanation.split()) in " ".join(str(score).split())


def test_one_wrong_answer_costs_one_point_and_the_right_ones_are_told_nothing_more():
    made = drill("flags", seed=3)
    found = right_answers(made)
    key = list(found)[1]
    score = made.check({**found, key: not found[key]})
    assert (float(score), score.status) == (len(found) - 1, "partial")
    assert [claim.held for claim in score.claims] == [other != key for other in found]
    assert repr(score) == str(score) and f"{len(found) - 1} of {len(found)} right" in repr(score)


@pytest.mark.parametrize("stub", [..., None, {}, {...}, "blank", "none"])
def test_without_an_answer_nothing_is_judged(stub):
    made = drill("edits", seed=5, level=3)
    stub = {"blank": dict.fromkeys(made.choices, ...), "none": dict.fromkeys(made.choices)}.get(str(stub), stub)
    score = made.check(stub)
    assert (float(score), score.status, score.claims) == (0.0, "not attempted", ())
    assert "not attempted" in str(score) and "not attempted" in score._repr_html_()


@pytest.mark.parametrize("form", [bool, np.bool_, np.int64, int, float, torch.tensor])
def test_truth_values_count_in_any_of_the_usual_forms(form):
    for topic in TOPICS:
        made = drill(topic, seed=11)
        found = right_answers(made)
        given = {key: form(value) if isinstance(value, bool) else value for key, value in found.items()}
        assert made.check(given).status == "passed"


@pytest.mark.parametrize("form", [str.upper, str.title, " {} ".format])
def test_texts_count_without_regard_to_case_and_outer_spaces(form):
    for seed in range(6):
        made = drill("edits", seed)
        found = right_answers(made)
        assert made.check({**found, "backward": form(found["backward"])}).status == "passed"


def test_a_number_or_none_may_stand_without_quotes():
    made = next(made for made in programs("hooks", 1) if "nothing" in right_answers(made).values())
    found = right_answers(made)
    bare = {key: None if value == "nothing" else float(value) for key, value in found.items()}
    assert made.check(bare).status == "passed"
    seed = next(seed for seed in SEEDS if "none" in right_answers(drill("gates", seed)).values())
    made = drill("gates", seed)
    found = right_answers(made)
    assert made.check({key: None if value == "none" else value for key, value in found.items()}).status == "passed"
    assert made.check({**found, next(iter(found)): 7}).status == "partial"


def test_a_missing_answer_is_no_error_and_gives_nothing_away():
    made = drill("leaves", seed=2)
    found = right_answers(made)
    left_out, *others = found
    for given in ({key: found[key] for key in others}, {**found, left_out: ...}, {**found, left_out: None}):
        score = made.check(given)
        assert (float(score), score.status) == (len(others), "partial")
        assert not score.claims[0].judged and score.claims[0].details == ()
        assert f"no answer yet: `{left_out}`" in str(score)


def test_what_is_no_answer_to_the_question_is_told_what_is():
    made = drill("edits", seed=1)
    score = made.check({**right_answers(made), "backward": "crash"})
    assert (
        "one of 'error', 'wrong gradient', 'right gradient'" in str(score) and "line" not in str(score).split("Next")[0]
    )
    key = next(key for key in made.choices if key != "backward")
    assert "True or False" in str(made.check({**right_answers(made), key: "error"}))
    assert made.check({k: str(value) for k, value in right_answers(made).items()}).status == "passed"
    assert "no answer to the question" in str(made.check({**right_answers(made), key: object()}))
    assert "a dict" in str(made.check([True, False]))
    assert "'other'" in str(made.check({**right_answers(made), "other": True}))


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_caller_s_modes_and_random_state_make_no_difference_and_stay(topic, mode):
    made = drill(topic, seed=4, level=3)
    found = right_answers(made)
    torch.manual_seed(5)
    before = torch.get_rng_state(), torch.initial_seed(), random.getstate()
    with mode():
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        assert drill(topic, seed=4, level=3).check(found).status == "passed"
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == modes
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (torch.initial_seed(), random.getstate()) == before[1:]


@pytest.mark.parametrize("topic", TOPICS)
def test_default_dtype_default_device_and_anomaly_mode_make_no_difference_and_stay(topic):
    found = [right_answers(made) for made in programs(topic, 2)[:20]]
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.autograd.set_detect_anomaly(True):
            assert [right_answers(made) for made in programs(topic, 2)[:20]] == found
            assert torch.is_anomaly_enabled()
        assert torch.get_default_dtype() == torch.float64
        assert torch.ones(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)


def test_a_check_says_nothing_beside_its_card(capfd):
    for topic, level in EVERY:
        made = drill(topic, seed=8, level=level)
        made.check(wrong_answers(made))
    assert capfd.readouterr() == ("", "")


def test_a_score_survives_pickling():
    made = drill("modes", seed=6, level=2)
    score = made.check({key: True for key in made.choices})
    again = pickle.loads(pickle.dumps(score))
    assert (str(again), float(again), again.seed, type(again)) == (str(score), float(score), 6, type(score))


# What is shown.


def test_a_drill_shows_its_program_its_keys_their_values_and_the_cell_to_answer_with():
    for topic, level in EVERY:
        made = drill(topic, seed=9, level=level)
        assert isinstance(made, Drill)
        shown = repr(made)
        for number, line in enumerate(made.program.lines, 1):
            assert f"{number:2}  {line}" in shown
        assert max(map(len, shown.split("\n"))) <= 88
        for key in made.choices:
            assert f'"{key}": ...' in shown
        assert "True or False" in shown or topic == "hooks"
        for values in made.choices.values():
            assert values == (True, False) or all(repr(value) in shown for value in values)
        cell = shown[shown.index("drill(") :]
        assert eval(cell, {"drill": drill}).status == "not attempted"
        assert eval(cell[: cell.index(".check")], {"drill": drill}) == made


class Checker(HTMLParser):
    """Collects an HTML text, and fails where an element is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def text_of(html):
    checker = Checker()
    checker.feed(html)
    assert not checker.open
    return checker.text


def test_the_cards_are_whole_html_with_all_that_the_text_says():
    for topic, level in EVERY:
        made = drill(topic, seed="<b>&", level=level)
        text = text_of(made._repr_html_())
        assert "seed <b>&" in text and all(line in text for line in made.program.lines)
        found = right_answers(made)
        score = made.check({**wrong_answers(made), "extra": 1})
        text = text_of(score._repr_html_())
        for question in made.program.questions:
            assert question.explanation.replace("`", "") in text
        assert "'extra'" in text and f"0 of {len(found)} right" in text
        assert f"{len(found)} of {len(found)} right" in text_of(made.check(found)._repr_html_())


def test_a_card_leads_on_to_another_program_and_after_success_to_the_next_level():
    made = drill("flags", seed=3, level=2)
    found = right_answers(made)
    assert '`drill("flags", level=3)` a harder one' in " ".join(str(made.check(found)).split())
    key = next(iter(found))
    assert "level=3" not in str(made.check({**found, key: not found[key]}))
    assert "harder" not in str(drill("flags", 3, 3).check(right_answers(drill("flags", 3, 3))))


@pytest.mark.parametrize("topic", ["flag", "", 3])
def test_an_unknown_topic_is_refused_with_the_topics_there_are(topic):
    with pytest.raises(ValueError, match="flags, leaves, modes, edits, gates, hooks, functions, scale, in_dims"):
        drill(topic)


@pytest.mark.parametrize("level", [0, 4, "2", None, 1.5])
def test_an_unknown_level_is_refused_with_the_levels_there_are(level):
    with pytest.raises(ValueError, match="level 1, 2 or 3"):
        drill("flags", level=level)


@pytest.mark.parametrize("seed", [1.5, [1], object()])
def test_a_seed_of_another_kind_is_refused(seed):
    with pytest.raises(TypeError, match="a whole number, a text, or None"):
        drill("flags", seed=seed)


def test_drills_import_neither_notebook_nor_drawing():
    folder = Path(drill_run.__file__).parent
    for path in folder.glob("*.py"):
        assert not re.search(r"IPython|matplotlib|nbgrader", path.read_text(encoding="utf-8"))
