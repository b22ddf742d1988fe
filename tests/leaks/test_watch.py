"""``watch_growth`` in a program: its report as text, card and figure, its options, what it leaves behind."""

import gc
import linecache
import multiprocessing
import os
import sys
import threading
import tomllib
import warnings
import weakref
from pathlib import Path

import pytest
import torch
from torch.nn.modules import module as hooks

from course_utils import MemoryTracker, watch_growth, watch_why
from course_utils.leaks.advice import behind
from course_utils.leaks.pytest_fixture import watch_test
from tests.leaks.drive import watched, written

pytestmark = pytest.mark.slow


def leak(calls: int, kept: list) -> None:
    model = torch.nn.Linear(8, 8)
    for _ in range(calls):
        kept.append(model(torch.ones(4, 8)))


def test_text_card_and_figure_say_the_same(closed_figures):
    kept: list = []
    limit_bytes = 2**30  # far above what other tests of this process keep alive
    with watch_growth(limit_bytes=limit_bytes) as growth:
        leak(30, kept)
    report = growth.report()
    (found,) = report.findings
    # The output, and the input that the graph saves for the gradient of the weight.
    assert found.rate.is_same and found.rate.nbytes == 4 * 8 * 4 * 2
    for text in (str(report), report._repr_html_()):
        assert "growing by 256 B per call" in text
        assert "kept" in text and "05_no_grad.ipynb" in text
    left = report.calls_until_full(report.evaluation)
    assert left == (limit_bytes - report.alive_bytes) // 256
    assert "kept: from 0 B to " in report.plot().description


def test_a_loop_without_modules_says_where_a_round_begins():
    kept = []
    with watch_growth() as growth:
        for _ in range(20):
            growth.step()
            kept.append(torch.ones(256))
    (found,) = growth.report().findings
    assert (found.holder.name, found.rate.nbytes) == ("kept", 1024)


def test_of_two_lines_that_keep_the_one_that_ran_meanwhile_is_named():
    net, kept = torch.nn.Linear(64, 64), []
    for _ in range(20):
        kept.append(net(torch.ones(8, 64)).relu())
    with watch_growth() as growth:
        for _ in range(20):
            kept.append(net(torch.ones(8, 64)).tanh())
    (found,) = growth.report().findings
    assert "tanh" in found.line.source


def test_what_operations_saved_is_told_to_the_byte():
    net, x, y = torch.nn.Linear(8, 10), torch.ones(25, 8), torch.zeros(25, dtype=torch.long)
    total = torch.zeros(())
    with watch_growth() as growth:
        for _ in range(20):
            total = total + torch.nn.functional.cross_entropy(net(x), y)
    (found,) = growth.report().findings
    assert dict(found.saved) == {"NllLoss (self) f32[25, 10]": 4 * 25 * 10, "NllLoss (total_weight) f32[]": 4}


def test_a_report_may_be_asked_for_while_the_loop_runs():
    kept: list = []
    with watch_growth() as growth:
        leak(20, kept)
        assert growth.report().verdict == "growing"
        kept.clear()
    assert growth.calls == 20


def test_few_calls_are_not_judged():
    with watch_growth() as growth:
        leak(5, [])
    assert growth.report().verdict == "too few calls"


def test_nothing_is_left_behind():
    before = len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)
    kept: list = []
    model, alive = torch.nn.Linear(8, 8), []
    gc.disable()
    try:
        with watch_growth():
            for _ in range(30):  # holders are looked for meanwhile
                x = torch.ones(4, 8)
                alive.append(weakref.ref(x))
                kept.append(model(x).detach())
                del x
    finally:
        gc.enable()
    assert [reference() for reference in alive] == [None] * 30
    assert (len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)) == before
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


class Own(torch.nn.Module):
    """A module with a call of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x


def test_watches_that_overlap_leave_nothing_of_the_process_changed():
    from torch._dynamo import eval_frame  # not at the top: every process that collects tests would load the compiler

    def now() -> list:
        named = Own.__call__, threading.Thread.start, torch.compile, torch.autograd.backward, torch.autograd.grad
        return [*named, list(warnings.filters), sys.argv[:], dict(linecache.cache), eval_frame._stance]

    linecache.getline(__file__, 1)
    before, model, kept = now(), Own(), []
    watches = watch_growth(), watch_why(), MemoryTracker(), watch_growth(), watch_why()
    for watch in watches:
        watch.__enter__()
    for _ in range(20):
        kept.append(model(torch.ones(4)))
        thread = threading.Thread(target=lambda: kept.append(torch.ones(4)))
        thread.start()
        thread.join()
    assert now() != before
    for watch in watches:
        watch.__exit__(None, None, None)
    assert now() == before
    assert [len(watch.report().findings) > 0 for watch in watches if isinstance(watch, watch_growth)] == [True, True]
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_gradients_are_the_same_to_the_bit():
    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        for _ in range(12):
            model(torch.randn(4, 8)).sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    alone = gradients()
    with watch_growth():
        watched_too = gradients()
    assert all(torch.equal(a, b) for a, b in zip(alone, watched_too, strict=True))


@pytest.mark.parametrize("options", [{"limit_bytes": 0}, {"limit_bytes": 1.5}, {"warm_up": -1}])
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match="a whole number from"):
        watch_growth(**options)


def test_a_watch_is_entered_once():
    growth = watch_growth()
    with growth:
        pass
    with pytest.raises(RuntimeError, match="a new one for each block"), growth:
        pass


@pytest.mark.parametrize(
    "name",
    [
        "plain_sum",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ("ctx_cycle", "forward_hook", "hidden_state", "callbacks")
        ),
    ],
)
def test_a_misconception_is_one_of_the_course_and_its_heading_exists(name, tmp_path):
    (found,) = watched(written(name, tmp_path)).findings
    course = behind(found)
    lesson, exercise, key = course.key.split("/", 2)
    root = Path(__file__).resolve().parents[2]
    fields = tomllib.loads(
        (root / "course_utils" / "lessons" / lesson / f"{exercise}.toml").read_text(encoding="utf-8")
    )
    assert fields["misconceptions"][key]["name"] == course.name
    assert course.heading in (root / "notebooks" / course.notebook).read_text(encoding="utf-8")


@pytest.mark.parametrize("around", [torch.inference_mode, torch.no_grad])
def test_a_watch_may_end_under_guards_that_put_back_what_was_dispatched_to(around):
    kept: list = []
    with watch_growth() as growth:
        leak(30, kept)
        with around():
            growth.stop()
        torch.empty(1)  # a mode taken away under the guard made this an internal error
        leak(30, kept)
    assert [found.holder.name for found in growth.report().findings] == ["kept"]
    assert growth.calls == 30
    with around():
        with watch_growth() as growth:
            leak(60, [])
        torch.empty(1)
    torch.empty(1)
    assert growth.report().verdict == "growing"
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_a_fault_of_the_watch_does_not_end_the_program(monkeypatch):
    kept: list = []
    with watch_growth() as growth:
        leak(10, kept)
        monkeypatch.setattr(growth._births, "next_call", lambda *args: 1 / 0)
        leak(10, kept)
    assert len(kept) == 20
    assert "The watch failed at call 10 and ended there (ZeroDivisionError" in str(growth.report())


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")  # torch says so of that Python alone
def test_a_compiled_model_runs_uncompiled_and_is_watched():
    model, kept = torch.compile(torch.nn.Linear(8, 8), backend="aot_eager"), []
    model(torch.ones(4, 8))
    with watch_growth() as growth:
        for _ in range(20):
            kept.append(model(torch.ones(4, 8)).detach())
    (found,) = growth.report().findings
    assert (found.holder.name, found.rate.nbytes, found.graph_bytes) == ("kept", 128, 0)
    assert type(model(torch.ones(4, 8)).grad_fn).__name__ == "CompiledFunctionBackward"
    torch._dynamo.reset()


@pytest.mark.nightly
def test_processes_that_the_script_started_are_told_of_and_not_what_compiles(monkeypatch):
    from torch._inductor import async_compile

    monkeypatch.setattr(async_compile.config, "compile_threads", 2)
    fork, model = multiprocessing.get_context("fork"), torch.nn.Linear(4, 4)
    with watch_growth() as growth:
        async_compile.AsyncCompile.process_pool()  # as a compiler does that finds nothing in its cache
        for call in range(12):
            model(torch.ones(1, 4))
            if call == 5:
                assert growth.report().unwatched == ()
                child = fork.Process(target=os.getpid)  # it ends between two calls
                child.start()
                child.join()
    assert growth.report().unwatched == ("1 process that the script started, such as a data loader's workers.",)
    async_compile.shutdown_compile_workers()


def test_nodes_are_told_by_the_calls_of_the_thread_that_recorded_them():
    weight, model, log = torch.ones(4, requires_grad=True), torch.nn.Linear(4, 1), {"total": 0.0}

    def train():
        for _ in range(30):
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            log["total"] = log["total"] + loss

    with watch_growth() as growth:
        for _ in range(1000):
            torch.tanh(weight)  # this thread's numbers are far ahead
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    (found,) = growth.report().findings
    assert (found.nodes, found.line.source) == (5, 'log["total"] = log["total"] + loss')
    assert (found.grown.first, found.grown.last) == (1, 30)


class Item:
    """One of very many."""

    def __init__(self, number: int) -> None:
        self.parts = [number]
        self.by_name = {"number": (number, self.parts)}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["plain_sum", "comprehension", "generator", "object_circle", "ctx_cycle"])
def test_a_search_does_not_drown_in_what_the_process_holds(name, tmp_path):
    crowd = [Item(number) for number in range(300_000)]
    (found,) = watched(written(name, tmp_path)).findings
    assert found.holder.kind != "nobody"
    assert len(crowd) == 300_000


@pytest.mark.parametrize(("leaks", "names"), [("logits", ["self.state"]), ("state", ["self.state"])])
def test_a_state_is_told_from_what_is_computed_with_it(leaks, names):
    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.state = torch.zeros(4, 16)
            self.inner, self.head = torch.nn.Linear(16, 16), torch.nn.Linear(16, 2)

        def forward(self, x):
            self.state = torch.tanh(self.inner(x + self.state))
            return self.head(self.state) if leaks == "logits" else self.state.sum()

    cell = Cell()
    with watch_growth() as growth:
        for _ in range(30):
            logits = cell(torch.ones(4, 16))
    assert [found.holder.name for found in growth.report().findings] == names
    assert logits.requires_grad


def test_a_loop_of_gradients_alone_needs_no_marks():
    weight, kept = torch.ones(64, requires_grad=True), []
    with watch_growth() as growth:
        for _ in range(30):
            loss = (weight * torch.ones(64)).square().sum()
            kept.append(loss * 2)
            torch.autograd.grad(loss, weight, retain_graph=True)
    (found,) = growth.report().findings
    assert found.holder.name == "kept" and found.line.source == "kept.append(loss * 2)"
    assert "Memory from one backward pass to the next" in str(growth.report())


@pytest.mark.parametrize("freed", [True, False])
def test_nodes_are_told_of_only_where_backward_has_freed_them(freed):
    weight, total = torch.ones(64, requires_grad=True), 0
    with watch_growth() as growth:
        for _ in range(30):
            growth.step()
            loss = (weight * torch.rand(64)).sum()
            if freed:
                loss.backward()
            total += loss
    report = growth.report()
    assert [found.holder.name for found in report.findings if found.rate.nbytes] == ([] if freed else ["total"])
    # The addition, the sum and the product of each call; the leaf's node is always the same.
    assert [(found.holder.name, found.nodes) for found in report.findings if not found.rate.nbytes] == (
        [("total", 3)] if freed else []
    )


def test_the_fixture_fails_a_test_that_leaves_something_behind():
    for keeps in (True, False):
        kept, fixture = [], watch_test()
        growth = next(fixture)
        for _ in range(20):
            growth.step()
            kept = [*kept, torch.ones(64)] if keeps else [torch.ones(64)]
        with pytest.raises(pytest.fail.Exception if keeps else StopIteration, match="`kept`" if keeps else None):
            next(fixture)
