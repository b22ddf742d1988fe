"""The engine of lesson 12 against PyTorch: random programs on both, and what else its text promises."""

import inspect
import weakref

import numpy as np
import pytest
import torch

from course_utils.checks.judge import judge
from course_utils.draw.page import Drawing
from course_utils.engine import PARTS, Engine, assemble, beside, whole
from course_utils.engine.drawing import plot_own_graph
from course_utils.memory.loops import collector_off
from tests.engine_programs import ERROR, TORCH, Program, agree, difference, drawn, outcome
from tests.lessons.loaded import LOADED

EVERY_RUN, NIGHTLY = range(60), range(60, 500)
MODELS = {part: LOADED["own_engine"].exercises[part].model for part in PARTS}


def compare(make, seeds):
    """Runs the programs of these seeds on both; returns the outcomes of PyTorch."""
    outcomes = []
    for seed in seeds:
        program = drawn(seed)
        outcomes.append(outcome(TORCH, program))
        wrong = difference(outcome(make(), program), outcomes[-1])
        assert wrong is None, f"seed {seed}, {wrong}:\n" + "\n".join(program.lines)
    return outcomes


@pytest.mark.parametrize("make", [Engine, lambda: assemble(*MODELS.values())], ids=["whole", "model answers"])
def test_random_programs_come_to_the_same_values_gradients_and_errors(make):
    outcomes = compare(make, EVERY_RUN)
    errors = sum(ERROR in found for found in outcomes)
    assert 10 <= errors <= 50, f"{errors} of {len(outcomes)} programs end in an error: both kinds are to be tried"


@pytest.mark.nightly
def test_many_random_programs_come_to_the_same():
    compare(Engine, NIGHTLY)
    compare(lambda: assemble(*MODELS.values()), NIGHTLY)


def test_the_programs_have_everything_that_the_engine_can_do():
    text = "\n".join(line for seed in EVERY_RUN for line in drawn(seed).lines)
    calls = ".T ", ".detach()", "no_grad", ".mul_(", ".add_(", "retain_grad()", "register_hook", ".exp()", ".log()"
    assert all(part in text for part in (*calls, " @ ", " / ", "1.0 - ", "1.0 / ", " = -", "** 2", ".relu()"))
    again = [drawn(seed).lines for seed in EVERY_RUN]
    assert any(sum("backward(" in line for line in lines) > 1 for lines in again)


def test_a_wrong_engine_is_found_out():
    class Wrong:
        def fit(self, gradient, shape):
            return gradient.mean(axis=tuple(range(gradient.ndim - len(shape)))).reshape(shape or ())

    def is_caught(seed):
        program = drawn(seed)
        try:
            return difference(outcome(assemble(Wrong), program), outcome(TORCH, program)) is not None
        except ValueError:  # no number of rows becomes one
            return True

    assert any(map(is_caught, EVERY_RUN))


def test_agreement_is_of_shape_and_numbers():
    assert agree(np.ones(2), np.ones(2) + 1e-13) and not agree(np.ones(2), np.ones(2) + 1e-11)
    assert not agree(np.ones((2, 1)), np.ones(2)) and not agree(None, np.ones(2)) and agree(None, None)


def test_the_engine_has_at_most_200_lines():
    lines = [line for line in inspect.getsource(whole).splitlines() if line.strip()]
    assert len(lines) <= 200


def test_a_part_that_is_missing_is_the_course_s():
    class Empty:
        """Nothing yet."""

    class Mine:
        def tanh(self, x):
            return Engine.tanh(self, x) * 1.0

    engine = assemble(Empty, Mine)
    assert str(engine).startswith("yours: tanh\nthe course's: matmul, sum,")
    x = engine.tensor([0.5], requires_grad=True)
    x.tanh().sum().backward()
    assert np.allclose(x.grad, 1 - np.tanh(0.5) ** 2)
    assert str(assemble(Empty)).startswith("yours: nothing yet\n")


@pytest.mark.parametrize("part", PARTS)
def test_what_an_answer_is_put_before_lacks_its_methods_and_no_other(part):
    names = {name for names in PARTS.values() for name in names}
    assert names - set(vars(beside(part))) == set(PARTS[part])


@pytest.mark.parametrize("make", [Engine, lambda: assemble(*MODELS.values())], ids=["whole", "model answers"])
def test_nothing_waits_for_the_collector(make):
    engine, references = make(), []
    with collector_off():
        for _ in range(3):
            w, x = engine.tensor(np.ones(3), requires_grad=True), engine.tensor(np.ones(3))
            h = (w * x).tanh()
            h.retain_grad()
            h.register_hook(lambda g: g)
            (h / x - h.detach()).sum().backward()
            references += [weakref.ref(tensor) for tensor in (w, x, h)]
            del w, x, h
        assert not [one for one in references if one() is not None]


def test_what_numpy_would_take_for_itself_is_the_engine_s_or_refused():
    x = Engine().tensor([1.0, -2.0], requires_grad=True)
    for made in (np.ones(2) * x, np.ones(2) - x, np.ones(2) / x, np.ones((2, 2)) @ x):
        assert type(made) is type(x) and made.requires_grad
    for refused in (lambda: np.tanh(x), lambda: x**x, lambda: 2**x):
        with pytest.raises(TypeError):
            refused()


def test_the_drawing_has_the_values_and_gradients_of_pytorch_s_and_fills_no_grad():
    def described(lib, draw):
        w, b = lib.tensor(3.0, requires_grad=True), lib.tensor(-1.0, requires_grad=True)
        h = w * 2.0
        y = h + b
        drawing = draw(y * y, w=w, b=b, h=h, y=y)
        assert isinstance(drawing, Drawing) and w.grad is None and b.grad is None
        return str(drawing)

    from course_utils import plot_graph

    theirs = described(torch, lambda result, **named: plot_graph(result, title="A graph", values=True, **named))
    ours = described(Engine(), lambda result, **named: plot_own_graph(result, "A graph", **named))
    assert ours == theirs.replace("Mul", "mul").replace("Add", "add")


def test_two_leaves_without_dimensions_share_their_grad_in_pytorch_and_not_here():
    """Why no program sums such leaves: when this fails, PyTorch has mended it, and they may be drawn."""
    lines = "(t0.sum() + t1.sum()).backward()", "(t0.sum() + t1.sum()).backward()"
    program = Program(lines, {"t0": (np.array(1.0), True), "t1": (np.array(2.0), True)})
    assert outcome(Engine(), program)["t0.grad"] == 2.0 and outcome(TORCH, program)["t0.grad"] == 3.0


def score_of(name, answer):
    return judge(LOADED["own_engine"].exercises[name], answer, "own_engine")


def called(name):
    return lambda self, *given: getattr(Engine, name)(self, *given)


BORROWED = {
    "its functions": lambda names: type("Mine", (), {name: vars(Engine)[name] for name in names}),
    "calls of them": lambda names: type("Mine", (), {name: called(name) for name in names}),
    "a subclass": lambda names: type("Mine", (Engine,), {"mine": lambda self: None}),
}


@pytest.mark.parametrize("way", BORROWED)
@pytest.mark.parametrize("part", PARTS)
def test_the_course_s_own_methods_are_no_answer(part, way):
    score = score_of(part, BORROWED[way](PARTS[part]))
    assert float(score) == 0 and "the course's own" in str(score), str(score)
    assert float(Engine().tensor([1.0]).sum().data) == 1.0  # they are put back


def test_a_method_that_is_missing_is_named_where_it_is_needed_and_costs_nothing_elsewhere():
    class Extend:
        matmul, sum, small_step = (vars(MODELS["Extend"])[name] for name in ("matmul", "sum", "small_step"))

    claims = {claim.text: claim for claim in score_of("Extend", Extend).claims}
    assert dict(claims["computes the values of the three operations"].details)["expected"] == "Extend with tanh"
    assert claims["works slopes out by a small step"].held


def test_a_mistake_in_one_method_costs_nothing_where_others_are_looked_at():
    class Record(MODELS["Record"]):
        def walk(self, node):
            return MODELS["Record"].walk(self, node)[::-1]

    missed = [claim.text for claim in score_of("Record", Record).claims if claim.judged and not claim.held]
    assert missed == ["walks to each node once, and after all that was made of it"]
