"""A function's memory, by call and by line."""

import sys

import pytest
import torch
from torch import nn

from course_utils.memory import MemoryReport
from course_utils.memory.tools.probe import LineMemory, memory_probe


def test_probe_prints_and_keeps_the_report_of_the_last_call(capsys):
    @memory_probe
    def double(x):
        return x * 2

    assert double.memory is None
    x = torch.ones(1000)
    assert torch.equal(double(x), x * 2)
    assert isinstance(double.memory, MemoryReport)
    assert (double.memory.requested, double.memory.peak) == (4000, 4000)
    assert capsys.readouterr().out.startswith("double: Memory on cpu, above the start: 3.9 KiB at the end")
    double(x[:10])
    assert double.memory.requested == 40
    assert double.__name__ == "double"


def test_probe_knows_the_arguments(capsys):
    @memory_probe(quiet=True)
    def step(model, batch):
        model(batch["x"]).sum().backward()

    model = nn.Linear(100, 10)
    step(model, {"x": torch.ones(4, 100)})
    assert step.memory.categories["gradients"] == 4040
    assert capsys.readouterr().out == ""


def test_probe_works_on_methods():
    class Trainer:
        @memory_probe(quiet=True)
        def step(self, x):
            return x + 1

    trainer = Trainer()
    trainer.step(torch.ones(10))
    assert trainer.step.memory.requested == 40


def test_probe_reports_a_call_that_raises(capsys):
    @memory_probe
    def fails(x):
        y = x.exp()
        raise KeyError(y.shape)

    with pytest.raises(KeyError):
        fails(torch.ones(1000))
    assert fails.memory.peak == 4000
    assert capsys.readouterr().out.startswith("fails: ")


def test_probe_takes_the_trackers_options():
    @memory_probe(device="meta", quiet=True)
    def make():
        return torch.empty(10), torch.empty(1000, device="meta")

    make()
    assert (make.memory.device, make.memory.requested, make.memory.elsewhere) == ("meta", 4000, {"cpu": 40})


def test_probe_decorates_functions_only():
    with pytest.raises(TypeError, match="a function, as a decorator"):
        memory_probe(3)


def helper(x):
    return x.exp()


def body(x, rounds):
    total = 0
    for _ in range(rounds):
        big = helper(x)
        total = total + big.sum()
        del big
    return total


def lines_of(memory, function):
    first = function.__code__.co_firstlineno
    return {use.line - first: use for use in memory.lines}


def test_lines_are_charged_with_what_they_leave_and_reach():
    x = torch.ones(1000)
    with LineMemory(body) as memory:
        kept = body(x, 3)
    lines = lines_of(memory, body)
    assert (lines[3].hits, lines[3].net, lines[3].peak) == (3, 12000, 4004)
    assert (lines[5].hits, lines[5].net) == (3, -12000)
    # The first sum, and the total that replaces the last one, are there at a time.
    assert (lines[4].hits, lines[4].net, lines[4].peak) == (3, 4, 4012)
    assert lines[2].hits == 4
    assert (lines[0].hits, lines[0].peak) == (0, None)
    assert sum(use.net for use in memory.lines) == memory.tracker.current == kept.nbytes
    assert lines[3].source.strip() == "big = helper(x)"


def test_lines_read_as_a_table():
    x = torch.ones(1000)
    with LineMemory(body) as memory:
        kept = body(x, 1)
    text = str(memory).splitlines()
    assert text[0].split() == ["line", "hits", "net", "peak", "source"]
    line = body.__code__.co_firstlineno + 3
    assert text[4].split() == [str(line), "1", "3.9", "KiB", "3.9", "KiB", "big", "=", "helper(x)"]
    del kept


def test_lines_of_a_recursive_function_go_to_the_innermost():
    def descend(depth, kept):
        if depth:
            descend(depth - 1, kept)
        kept.append(torch.empty(10))

    kept = []
    with LineMemory(descend) as memory:
        descend(3, kept)
    lines = lines_of(memory, descend)
    assert (lines[2].hits, lines[2].net, lines[3].hits, lines[3].net) == (3, 0, 4, 160)


def test_lines_before_an_exception_count_and_tracing_is_put_back():
    def fails(x):
        y = x.exp()
        raise KeyError(y.shape)

    before = sys.gettrace()
    with pytest.raises(KeyError), LineMemory(fails) as memory:
        fails(torch.ones(1000))
    assert sys.gettrace() is before
    assert lines_of(memory, fails)[1].net == 4000
    assert torch._C._len_torch_dispatch_stack() == 0


def test_lines_of_a_decorated_method():
    class Trainer:
        @memory_probe(quiet=True)
        def step(self, x):
            y = x + 1
            return y

    trainer = Trainer()
    with LineMemory(trainer.step) as memory:
        y = trainer.step(torch.ones(10))
    assert [use.net for use in memory.lines if use.hits] == [40, 0]
    del y


@pytest.mark.parametrize("thing", [len, 3, torch.exp, nn.Linear(1, 1)])
def test_lines_need_a_python_function(thing):
    with pytest.raises(TypeError, match="a function written in Python"):
        LineMemory(thing)
