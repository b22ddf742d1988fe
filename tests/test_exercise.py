"""A check stays right, and leaves everything as it was, whatever an answer does."""

import collections
import gc
import os
import random
import subprocess
import sys
import textwrap
import threading
import types
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from course_utils import Lesson
from course_utils.checks import Missed
from course_utils.checks.exercise import Exercise
from course_utils.checks.judge import TIDY, judge
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.predictions import Predictions
from course_utils.checks.score import Score
from course_utils.checks.state import LIMIT, Capture

COPY = Exercise("copy", 1, (), {"alias": Misconception("detach() makes a copy", "It makes a view.", "Edit it.")})


@COPY.claim("has the values of x", gate=True)
def _(trial):
    for shape in ((2, 3), ()):
        x = trial.randn(*shape)
        if not torch.equal(trial.tensor(trial.call(x)), x):
            raise Missed


@COPY.claim("has no history")
def _(trial):
    leaf = trial.randn(3, requires_grad=True)
    for x in (leaf, leaf * 2):
        if trial.tensor(trial.call(x)).requires_grad:
            raise Missed


@COPY.claim("shares no memory with x")
def _(trial):
    x = trial.randn(3)
    if trial.tensor(trial.call(x)).data_ptr() == x.data_ptr():
        raise Missed("alias")


def good(x):
    return x.detach().clone()


def check(answer):
    return judge(COPY, answer, "detach")


def broken(score):
    return [claim.text for claim in score.claims if not claim.held and claim.judged]


def shown(score):
    return " ".join(str(score).split())  # the card as text, without its line breaks


# What an answer may raise.


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError, MemoryError, StopIteration]
)
def test_an_answer_that_raises_becomes_an_error_card_with_the_line_that_raised(error):
    def answer(x):
        raise error("out of luck")

    score = check(answer)
    assert (float(score), score.status) == (0.0, "error")
    assert f"{error.__name__}: out of luck" in shown(score)
    assert 'raise error("out of luck")' in shown(score)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_raises_when_it_is_shown_is_still_a_card(error):
    class Rude(UserWarning):
        is_rude = True

        def __str__(self):
            if self.is_rude:
                raise error("no text")
            return "polite"

        __repr__ = __str__

    def raises(x):
        raise Rude

    def warns(x):
        warning = Rude()
        warning.is_rude = False  # Python asks for the text itself
        warnings.warn(warning, stacklevel=1)
        warning.is_rude = True
        return good(x)

    assert f"Rude: <its message raises {error.__name__}>" in shown(check(raises))
    assert f"Rude whose repr raises {error.__name__}" in shown(check(lambda x: Rude()))
    score = check(warns)
    assert score.status == "passed" and "Rude" in score.output


def test_endless_recursion_is_reported_as_such():
    def answer(x):
        return answer(x)

    assert "RecursionError" in shown(check(answer))


NONSENSE = [0, "text", object(), [], {}, float("nan"), nn.Linear(1, 1), torch.ones(()), lambda x: x, torch.Size([2])]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda value: type(value).__name__)
def test_nonsense_becomes_a_card_as_a_result_and_as_an_answer(nonsense):
    score = check(lambda x: nonsense)
    assert float(score) == 0.0 and broken(score) and "could not be judged" not in shown(score)
    assert callable(nonsense) or (float(check(nonsense)), check(nonsense).status) == (0.0, "error")


# What an answer may leave behind. Each is reported, put back, and does not disturb the next answer.


END = threading.Event()
LEFT_BEHIND = {
    "changed the grad mode to False": lambda: torch.set_grad_enabled(False),
    "changed the default dtype to torch.float64": lambda: torch.set_default_dtype(torch.float64),
    "seeded the random number generator": lambda: torch.manual_seed(0),
    "changed anomaly detection to True": lambda: torch.autograd.set_detect_anomaly(True),
    "left a thread running": lambda: threading.Thread(target=END.wait, daemon=True).start(),
}


def picture():
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "seed": torch.initial_seed(),
        "random numbers": torch.get_rng_state().tolist(),
        "python random": random.getstate(),
        "numpy random": np.random.get_state()[1].tolist(),
        "anomaly": torch.is_anomaly_enabled(),
        "threads": torch.get_num_threads(),
        "streams": (sys.stdout, sys.stderr),
        "warnings": list(warnings.filters),
    }


@pytest.mark.parametrize(("said", "leave"), LEFT_BEHIND.items())
def test_what_an_answer_leaves_behind_is_reported_and_put_back(said, leave):
    def answer(x):
        copy = good(x)
        leave()
        return copy

    before = picture()
    END.clear()
    score = check(answer)
    END.set()
    assert picture() == before
    assert broken(score) == [TIDY]
    assert said in shown(score)
    assert 0 < score < score.possible
    assert check(good).status == "passed"


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad], ids=lambda mode: mode.__name__)
def test_a_mode_that_is_entered_and_never_left_ends_with_the_check(mode):
    entered = []

    def answer(x):
        entered.append(mode())
        entered[-1].__enter__()
        return x.clone()

    before = picture()
    score = check(answer)
    assert picture() == before
    assert score < score.possible
    assert check(good).status == "passed"


def test_a_thread_that_ends_a_little_later_or_is_a_library_s_own_is_nobody_s_business():
    end = threading.Event()
    Monitor = type("Monitor", (threading.Thread,), {"__module__": "tqdm._monitor"})

    def answer(x):
        threading.Thread(target=lambda: end.wait(0.05), daemon=True).start()
        Monitor(target=end.wait, daemon=True).start()
        return good(x)

    assert check(answer).status == "passed"
    end.set()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_a_machine_without_threads_is_not_taken_for_a_wrong_answer(monkeypatch, error):
    def refuse(thread):
        raise error

    before, descriptors = picture(), sorted(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(type(error), match="Nothing was judged: the machine gave no thread"):
            check(good)
    assert picture() == before
    assert not descriptors or sorted(os.listdir("/proc/self/fd")) == descriptors
    assert check(good).status == "passed"


def test_edited_arguments_are_reported():
    def edits(x):
        with torch.no_grad():
            x.mul_(2)
        return good(x)

    def flags(x):
        x.requires_grad_(True)
        return good(x)

    assert "edited x" in shown(check(edits))
    assert "set x.requires_grad to True" in shown(check(flags))


def test_an_answer_cannot_start_another_check():
    def answer(x):
        return Lesson("detach").check("snapshot", good)

    assert "already running" in shown(check(answer))
    assert check(good).status == "passed"


# What an answer prints, warns or displays.


def test_what_an_answer_prints_is_in_the_card_and_nowhere_else(capfd):
    def answer(x):
        print("to stdout")
        print("to stderr", file=sys.stderr)
        os.write(1, b"to descriptor 1\n")
        os.write(2, b"to descriptor 2\n")
        warnings.warn("mind the gap. More text.", stacklevel=1)
        return good(x)

    score = check(answer)
    assert score.status == "passed"
    assert capfd.readouterr() == ("", "")
    for text in ("to stdout", "to stderr", "to descriptor 1", "to descriptor 2", "UserWarning: mind the gap"):
        assert text in score.output


def test_megabytes_of_output_are_cut_at_the_limit_and_the_rest_is_counted():
    calls = []

    def answer(x):
        calls.append(print(*["x" * 1_000_000] * 20, sep=""))
        return good(x)

    score = check(answer)
    assert score.status == "passed"
    assert len(score.output) < 3000 and f"{len(calls) * 20_000_001 - LIMIT:,} more characters" in score.output


def test_input_is_refused_and_what_no_file_can_hold_is_written_out():
    assert "\\udfff" in shown(check(lambda x: exec("raise ValueError('\udfff')")))
    assert "input() is not available" in shown(check(lambda x: input("?")))


# Whoever started the tests may ignore SIGINT or block it, and a program inherits that.
HEEDS_SIGINT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
"""


def run_script(source):
    environment = os.environ | {"COURSE_UTILS_PROGRESS": "off"}
    command = [sys.executable, "-c", HEEDS_SIGINT + textwrap.dedent(source)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)


ENDLESS = """
import os, signal, threading, time
from course_utils import Lesson

def answer(x):
    while True:
        try:
            started.set()
        except KeyboardInterrupt:
            pass

def interrupt():
    started.wait()
    os.kill(os.getpid(), signal.SIGINT)

def checking():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("check ")]

started = threading.Event()
threading.Thread(target=interrupt, daemon=True).start()
lesson = Lesson("detach")
try:
    lesson.check("snapshot", answer)
except KeyboardInterrupt:
    print("interrupted")
print("still checking:", checking())
print(lesson.check("snapshot", lambda x: x.detach().clone()).status)
"""


@pytest.mark.slow
def test_a_real_interrupt_stops_the_check_and_the_answer():
    out = run_script(ENDLESS).stdout
    assert "interrupted" in out
    assert "still checking: []" in out
    assert "passed" in out


HAMMERED = """
import faulthandler, os, signal, threading, time
from course_utils.checks import judge

# What is seldom otherwise: the request to stop arrives again and again, also while the thread is ending.
judge._STOP_AGAIN_SECONDS = 0.0
threading.excepthook = lambda arguments: None
faulthandler.dump_traceback_later(60, exit=True)

def answer(trial):
    busy.set()
    while True:
        pass

def interrupt():
    busy.wait()
    os.kill(os.getpid(), signal.SIGINT)

for number in range(100):
    busy = threading.Event()
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        judge.run(answer, None, "endless", print)
    except KeyboardInterrupt:
        pass
print("stopped", number + 1)
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_an_interrupt_never_waits_for_a_thread_that_ended_in_the_middle_of_something():
    assert run_script(HAMMERED).stdout.strip() == "stopped 100"


@pytest.mark.slow
def test_a_slow_answer_is_told_so_while_it_runs(monkeypatch, capsys):
    monkeypatch.setattr("course_utils.checks.judge.SLOW_SECONDS", 0.2)

    def answer(x):
        if x.dim() == 1:
            threading.Event().wait(0.5)
        return good(x)

    score = check(answer)
    assert score.status == "passed"
    assert "has been running for" in capsys.readouterr().out


def test_the_time_in_which_modules_are_loaded_is_none_of_the_answer_s(monkeypatch, capsys):
    looked, now = threading.Event(), [0.0]

    def clock():
        looked.set()
        return now[0]

    def answer(x):
        for _ in range(3 * (not now[0])):
            looked.clear()
            looked.wait()  # so that the next look finds both the module and the seconds
            monkeypatch.setitem(sys.modules, f"loaded {len(sys.modules)}", sys)
            now[0] += 9.0
        return good(x)

    monkeypatch.setattr(
        "course_utils.checks.judge.time", types.SimpleNamespace(perf_counter=clock, sleep=lambda s: None)
    )
    assert check(answer).status == "passed"
    assert now[0] > 10 and capsys.readouterr().out == ""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the threads of this process")
def test_a_thread_whose_backward_failed_is_over_when_its_answer_is_judged():
    def answer(x):
        factor, memory = torch.ones(3, requires_grad=True), torch.ones(3)
        loss = sum((factor * memory).sum() for _ in range(9))
        memory.zero_()
        loss.backward()

    before = set(os.listdir("/proc/self/task"))
    for _ in range(20):
        assert check(answer).status == "error" and set(os.listdir("/proc/self/task")) <= before


def test_what_a_terminal_is_told_meanwhile_is_not_what_the_answer_printed(monkeypatch, capfd):
    monkeypatch.setattr("sys.stdout", sys.__stdout__)  # as in a terminal: its descriptor is 1
    with Capture() as capture:
        print("by the answer")
        capture.tell("has been running")
    print("afterwards")
    sys.stdout.flush()
    assert capture.text() == "by the answer"
    assert capfd.readouterr().out == "has been running\nafterwards\n"


# What a check reports.


def test_a_score_is_a_number_to_nbgrader_and_a_card_to_a_learner():
    score = check(lambda x: x.detach())
    assert isinstance(score, float) and repr(score) == repr(float(score))
    assert "makes a copy" in shown(score) and "makes a copy" in score._repr_html_()
    assert isinstance(score, Score) and 0 < score < score.possible


def test_a_stub_is_not_attempted_in_any_form_and_what_is_written_or_refused_by_torch_is_an_answer():
    def documented(x):
        """Words only."""

    def raises(x):
        """What it should do."""
        raise NotImplementedError("Exercise 3.1")

    class Blank:
        """Words only."""

    class Written:
        def forward(self):
            return 1

    def torch_refuses(x):
        return torch._C._nn.gelu(torch.ones(1, dtype=torch.int64))  # "gelu_cpu" not implemented for 'Long'

    for stub in (None, ..., lambda x: None, documented, raises, Blank):
        assert check(stub).status == "not attempted"
    for answer in (Written, torch_refuses, lambda x: x):
        assert check(answer).status in ("error", "partial")


def test_unknown_exercises_and_lessons_name_those_there_are():
    with pytest.raises(ValueError, match="detach"):
        Lesson("detatch")
    lesson = Lesson("detach")
    with pytest.raises(ValueError, match=", ".join(lesson.exercises)):
        lesson.check("snap", good)


def test_points_are_never_full_while_a_claim_fails():
    exercise = Exercise("three", 1, ("one", "two"), {"m": Misconception("n", "e", "s")}, watches_side_effects=False)
    for number in range(300):
        exercise.claim(f"claim {number}")(lambda trial: None)

    @exercise.claim("the last")
    def _(trial):
        raise Missed("m")

    score = judge(exercise, lambda: 1, "lesson")
    assert score == pytest.approx(0.99) and score.status == "partial"


def test_a_gate_keeps_the_claims_after_it_from_being_judged():
    exercise = Exercise("gated", 1, (), {})

    @exercise.claim("first", gate=True)
    def _(trial):
        raise Missed

    @exercise.claim("second")
    def _(trial):
        raise AssertionError("must not be reached")

    score = judge(exercise, lambda: 1, "lesson")
    assert [claim.judged for claim in score.claims] == [True, False, False] and float(score) == 0.0


def test_a_claim_s_own_defect_is_shown_and_never_hidden():
    exercise = Exercise("defect", 1, (), {})

    @exercise.claim("needs a shape")
    def _(trial):
        trial.call().shape  # noqa: B018  (the attribute that is missing is the point)

    assert "could not be judged" in shown(judge(exercise, lambda: 3, "lesson"))


# Predictions.


def flags(trial):
    return {"up": True, "count": 3, "word": "error", "pair": (1, "None")}


def predict(points, truth, *keys):
    known = {"m": Misconception("n", "e", "s")}
    return Predictions("guess", points, (), known, keys=keys, readings=[("up", False, "m")], truth=truth)


PREDICT = predict(2, flags, "up", "count", "word", "pair")


def test_a_prediction_takes_every_spelling_of_a_value():
    counts = (3, 3.0, np.int64(3), np.float64(3), torch.tensor(3))
    for up, count in zip((True, 1, np.bool_(True), torch.tensor(True), 1.0), counts, strict=True):
        for word in ("error", " ERROR ", "Error"):
            answer = {"up": up, "count": count, "word": word, "pair": [1, " none"]}
            assert judge(PREDICT, answer, "lesson").status == "passed"


def test_one_value_for_all_predictions_earns_nothing():
    score = judge(PREDICT, {"up": 1, "count": 1, "word": 1, "pair": 1}, "lesson")
    assert float(score) == 0 and not any(claim.held for claim in score.claims)
    assert "found            something else for 3 of them" in str(score)


def test_a_prediction_earns_by_key_and_ignores_extra_keys_aloud():
    score = judge(PREDICT, {"up": False, "count": 3, "word": "error", "more": 1}, "lesson")
    assert float(score) == 1.0
    assert [claim.misconception and claim.misconception.name for claim in score.claims] == ["n", None, None, None]
    assert any("more" in note for note in score.notes)
    assert "(1, 'None')" not in shown(score), "the right value is never given away"


@pytest.mark.parametrize("answer", [{}, {"up": ..., "count": None}, None, ..., 3, "text", [True], lambda: 1, object()])
def test_predictions_without_an_answer_are_not_attempted_and_what_is_no_dict_becomes_a_card(answer):
    score = judge(PREDICT, answer, "lesson")
    is_open = answer is None or answer is ... or isinstance(answer, dict)
    assert float(score) == 0.0 and (score.status == "not attempted") == is_open and bool(broken(score)) != is_open


class Entries(collections.UserDict):
    """A mapping, and no dict."""


MAPPINGS = [dict, collections.OrderedDict, collections.Counter, Entries, types.MappingProxyType]


@pytest.mark.parametrize("kind", MAPPINGS, ids=lambda kind: kind.__name__)
def test_predictions_can_be_in_any_mapping(kind):
    answer = kind({"up": True, "count": 3, np.str_("word"): "error", "pair": (1, "none")})
    assert judge(PREDICT, answer, "lesson").status == "passed"


def test_lesson_predict_gives_nothing_away_before_a_guess():
    lesson = Lesson("detach")
    asked = lesson.predict("is it flagged?", ..., "a very telling value")
    assert "telling" not in repr(asked) + asked._repr_html_()
    assert lesson.predict("how many?", 10.05, 10.0).right and not lesson.predict("how many?", 11, 10).right
    assert lesson.predict("how many?", " 3", 3).right and not lesson.predict("how many?", "4", 3).right
    assert lesson.predict("flags", {"a": 1, "b": False}, {"a": True, "b": False}).right


@pytest.mark.parametrize("stored", ["here", "off"])
def test_a_prediction_counts_in_the_score_card_by_its_first_guess(stored, monkeypatch):
    monkeypatch.setenv("COURSE_UTILS_PROGRESS", "off") if stored == "off" else None
    lesson, (first, second, *_) = Lesson("detach"), Lesson("detach")._thoughts
    for question, guess in ((first, 11), (first, 10), (second, 10), (second, 11)):
        lesson.predict(question, guess, 10)
    assert "Predictions: 1 of 2 right, by your first answers." in repr(lesson.scorecard())
    assert "1 of 2 right" in repr(Lesson("detach").scorecard()) or stored == "off"


# Hints and solutions.


def test_hints_come_one_by_one_and_end_with_a_word():
    lesson = Lesson("detach")
    total = len(lesson.exercises["snapshot"].hints)
    texts = [lesson.hint("snapshot").text for _ in range(total + 1)]
    assert len(set(texts[:-1])) == total and texts[-1] == ""
    assert "no more" in repr(lesson.hint("snapshot"))


def test_a_solution_opens_after_an_attempt_or_when_asked_twice():
    lesson = Lesson("detach")
    assert not lesson.solution("snapshot").source
    assert "detach().clone()" in lesson.solution("snapshot").source
    other = Lesson("detach")
    other.check("mean_loss", lambda *_: 0)
    assert "def mean_loss" in other.solution("mean_loss").source


def test_a_copy_without_solutions_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("course_utils.lesson.SOLUTIONS", tmp_path)
    lesson = Lesson("detach")
    lesson.solution("written")
    assert "holds no solutions" in repr(lesson.solution("written"))


def test_checks_leave_no_threads_and_no_memory():
    check(good)
    gc.collect()
    threads = threading.active_count()
    for _ in range(5):
        check(good)
    assert threading.active_count() == threads
