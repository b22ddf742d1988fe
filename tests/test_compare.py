"""What alternatives cost: FLOPs by arithmetic, bytes by arithmetic, times by a clock that the test turns."""

import itertools
import json
import time

import pytest
import torch
from torch import nn

from course_utils.measure import in_turns
from course_utils.measure.compare import Comparison, Cost, compare, format_count


def square(size, times=1):
    x = torch.ones(size, size)

    def product():
        y = x
        for _ in range(times):
            y = y @ x
        return y

    return product


def test_flops_of_a_matrix_product_are_two_times_n_cubed():
    costs = compare({"once": square(64), "twice": square(64, 2)}, rounds=0)
    assert (costs["once"].flops, costs["twice"].flops) == (2 * 64**3, 4 * 64**3)


def test_backward_of_a_layer_costs_two_more_products():
    layer, x = nn.Linear(32, 16, bias=False), torch.ones(8, 32, requires_grad=True)
    costs = compare({"forward": lambda: layer(x), "both": lambda: layer(x).sum().backward()}, layer, x, rounds=0)
    assert costs["forward"].flops == 2 * 8 * 32 * 16
    assert costs["both"].flops == 3 * costs["forward"].flops


def test_bytes_are_those_of_the_results():
    x = torch.ones(64, 64)
    costs = compare({"once": lambda: x @ x, "twice": lambda: (x @ x) @ x, "nothing": lambda: None}, x, rounds=0)
    size = 64 * 64 * 4
    assert [(cost.peak_bytes, cost.held_bytes) for cost in costs.costs] == [(size, size), (2 * size, size), (0, 0)]


def test_a_result_holds_its_graph():
    x = torch.ones(1000, requires_grad=True)

    def without_graph():
        with torch.no_grad():
            return x.exp().sum()

    costs = compare({"with": lambda: x.exp().sum(), "without": without_graph}, x, rounds=0)
    assert (costs["with"].held_bytes, costs["without"].held_bytes) == (4004, 4)
    assert (costs["with"].peak_bytes, costs["without"].peak_bytes) == (4004, 4004)


def turned_clock(monkeypatch, seconds):
    """A clock that goes on by a function's own seconds when it is called, and not otherwise."""
    now = [0.0]
    monkeypatch.setattr("course_utils.measure.perf_counter", lambda: now[0])

    def works(name):
        def call():
            now[0] += next(seconds[name])

        return call

    return {name: works(name) for name in seconds}


def test_times_are_medians_of_ratios_within_a_round(monkeypatch):
    """The machine gets slower by the round, both alike: the ratio stays."""
    slower = [1.0, 1.0, 1.0, 2.0, 4.0, 8.0]  # the first calls are for FLOPs, bytes and the length of a sample
    functions = turned_clock(monkeypatch, {"base": iter(slower), "double": iter([2 * s for s in slower])})
    costs = compare(functions, rounds=3)
    assert (costs["base"].time_ratio, costs["double"].time_ratio) == (1.0, 2.0)
    assert (costs["base"].wall_seconds, costs["double"].wall_seconds) == (4.0, 8.0)


def test_ratios_refer_to_the_baseline(monkeypatch):
    functions = turned_clock(monkeypatch, {"slow": itertools.repeat(6.0), "fast": itertools.repeat(2.0)})
    costs = compare(functions, baseline="fast", rounds=2)
    assert [cost.time_ratio for cost in costs.costs] == [3.0, 1.0]
    assert costs.baseline == "fast"


def test_short_functions_are_called_often_in_a_sample(monkeypatch):
    calls = []
    functions = turned_clock(monkeypatch, {"short": itertools.repeat(0.0001)})
    costs = compare({"short": lambda: (calls.append(1), functions["short"]())}, rounds=2)
    assert len(calls) == 3 + 2 * 20  # a sample lasts two milliseconds
    assert costs["short"].wall_seconds == pytest.approx(0.0001)


def test_alternatives_take_turns_in_going_first():
    order = []

    def work(name):
        order.append(name)
        time.sleep(0.003)  # longer than a sample: one call a round

    taken = in_turns({name: lambda name=name: work(name) for name in "abc"}, 3, before=lambda: order.append("-"))
    assert "".join(order) == "-a-b-c" + "-a-b-c" + "-b-c-a" + "-c-a-b"
    assert all(len(seconds) == 3 and min(seconds) >= 0.003 for seconds in taken.values())


def test_without_rounds_no_time_is_taken():
    costs = compare({"a": lambda: None}, rounds=0)
    assert costs == Comparison((Cost("a", 0, 0, 0),), "a", 0)
    assert costs == compare({"a": lambda: None}, rounds=0)


def test_all_see_the_same_random_numbers_and_the_callers_stream_stays():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    drawn = {"a": [], "b": []}
    compare({name: lambda name=name: drawn[name].append(torch.rand(3)) for name in drawn}, rounds=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one, drawn["a"][0]) for one in drawn["a"] + drawn["b"])


def test_before_is_called_before_each_and_not_measured():
    x = torch.ones(1000, requires_grad=True)
    seen = []

    def clear():
        x.grad = None
        seen.append(torch.ones(10_000).sum().item())

    costs = compare({"backward": lambda: (x * x).sum().backward()}, x, before=clear, rounds=1)
    assert costs["backward"].held_bytes == 4000  # the gradient, new each time
    assert len(seen) >= 4


def test_tables():
    costs = Comparison((Cost("both", 1_230_000, 2048, 1024, 1.0, 0.2), Cost("one", 0, 12, 4, 0.504, 0.1)), "both", 15)
    assert str(costs).splitlines() == [
        "alternative   FLOPs     peak     held   time",
        "both         1.23 M  2.0 KiB  1.0 KiB  1.00x",
        "one               0     12 B      4 B  0.50x",
    ]
    assert repr(costs) == str(costs)
    assert costs.to_text(times=False).splitlines()[1] == "both         1.23 M  2.0 KiB  1.0 KiB"
    assert costs.to_markdown().splitlines() == [
        "| alternative | FLOPs | peak | held | time |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| both | 1.23 M | 2.0 KiB | 1.0 KiB | 1.00x |",
        "| one | 0 | 12 B | 4 B | 0.50x |",
    ]
    assert costs._repr_markdown_() == costs.to_markdown()
    assert json.loads(json.dumps(costs.to_dict()))["costs"][1]["held_bytes"] == 4


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1000, "1 k"), (1_230_000, "1.23 M"), (999_600, "1 M"), (4 * 10**12, "4 T")],
)
def test_counts_for_reading(count, text):
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("alternatives", "keywords", "error", "says"),
    [
        ([1], {}, TypeError, "a dictionary of names and functions"),
        ({}, {}, ValueError, "no alternatives"),
        ({"a": 3}, {}, TypeError, "The alternative 'a' is 3"),
        ({"a": len}, {"baseline": "b"}, ValueError, "one of a"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(alternatives, keywords, error, says):
    with pytest.raises(error, match=says):
        compare(alternatives, **keywords)


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(KeyError, match="one of once"):
        compare({"once": square(2)}, rounds=0)["twice"]


def test_an_error_of_an_alternative_is_its_own_and_leaves_nothing_behind():
    state = torch.get_rng_state()

    def fails():
        torch.rand(3)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        compare({"fails": fails})
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_compiled_code_is_measured_uncompiled_and_stays_compiled():
    def double(x):
        return (x * 2).sum()

    compiled, x = torch.compile(double, backend="aot_eager"), torch.ones(10, requires_grad=True)
    one, other = compare({"compiled": lambda: compiled(x), "plain": lambda: double(x)}, x, rounds=0).costs
    assert (one.peak_bytes, one.held_bytes) == (other.peak_bytes, other.held_bytes) == (44, 4)
    assert type(compiled(x).grad_fn).__name__ == "CompiledFunctionBackward"
    torch._dynamo.reset()
