"""The engine of lesson 12 against PyTorch: random programs on both, and what else its text promises."""

import inspect

import numpy as np
import pytest
import torch

from course_utils.checks.judge import judge
from course_utils.draw.drawing import Drawing
from course_utils.engine import Engine, assemble, whole
from course_utils.engine.drawing import plot_own_graph
from course_utils.engine.parts import PARTS, beside
from course_utils.lessons.own_engine._programs import ERROR, TORCH, Program, agree, difference, drawn, outcome
from tests.lessons.loaded import LOADED

EVERY_RUN, NIGHTLY = range(60), range(60, 500)


def compare(seeds):
    """Runs the programs of these seeds on both; returns the outcomes of PyTorch."""
    outcomes = []
    for seed in seeds:
        program = drawn(seed)
        outcomes.append(outcome(TORCH, program))
        wrong = difference(outcome(Engine(), program), outcomes[-1])
        assert wrong is None, f"seed {seed}, {wrong}:\n" + "\n".join(program.lines)
    return outcomes


def test_random_programs_come_to_the_same_values_gradients_and_errors():
    outcomes = compare(EVERY_RUN)
    errors = sum(ERROR in found for found in outcomes)
    assert 10 <= errors <= 50, f"{errors} of {len(outcomes)} programs end in an error: both kinds are to be tried"


@pytest.mark.nightly
def test_many_random_programs_come_to_the_same():
    compare(NIGHTLY)


def test_the_programs_have_everything_that_the_engine_can_do():
    text = "\n".join(line for seed in EVERY_RUN for line in drawn(seed).lines)
    parts = ("@", ".split(", ".detach()", "no_grad", ".mul_(", ".add_(", "retain_grad()", "register_hook", ".exp()")
    assert all(part in text for part in parts)
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


def test_a_view_is_not_edited_while_operations_are_recorded():
    engine = Engine()
    x = engine.tensor(np.ones(3), requires_grad=True) * 2.0
    first, _ = x.split([1, 2])
    for tensor in (first, x):
        with pytest.raises(NotImplementedError, match="records no edit of a view"):
            tensor.mul_(2.0)


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


def claims_of(name, answer):
    score = judge(LOADED["own_engine"].exercises[name], answer, "own_engine")
    return {claim.text: dict(claim.details) for claim in score.claims if claim.judged and not claim.held}


def test_a_random_program_that_fails_is_shown_without_the_lines_that_it_fails_without():
    class Record:
        matmul, sum, walk, backward = (vars(Engine)[name] for name in ("matmul", "sum", "walk", "backward"))

        def tanh(self, x):
            made = self.tensor(np.tanh(x.data))
            return self.record("tanh", made, (x, lambda g, y: g * (1 - np.tanh(y) ** 2), made))

    lines = claims_of("Record", Record)["agrees with PyTorch on random programs"]["called"].split("; ")
    assert "tanh" in str(lines) and "backward" in lines[-1] and len(lines) <= 9
    named = [line.partition(" = ")[0].split(", ") for line in lines[:-1]]
    used = [any(name in " ".join(lines[at + 1 :]) for name in names) for at, names in enumerate(named)]
    assert all(used), f"a line that nothing needs: {lines}"


def test_a_method_that_is_missing_is_named_where_it_is_needed_and_costs_nothing_elsewhere():
    class Record:
        matmul, walk, backward = (vars(Engine)[name] for name in ("matmul", "walk", "backward"))

    missed = claims_of("Record", Record)
    assert missed["computes the values of the three operations"]["expected"] == "Record with tanh"
    assert "adds up what arrives from several uses" not in missed


def test_an_error_of_another_class_is_told_beside_the_one_that_was_expected():
    class Memory:
        save, write, bytes_held = (vars(Engine)[name] for name in ("save", "write", "bytes_held"))

        def unsave(self, way):
            try:
                return Engine.unsave(self, way)
            except RuntimeError as error:
                raise ValueError("not so") from error

    details = claims_of("Memory", Memory)[
        "frees what was saved, unless told to retain it, and says so to a second backward"
    ]
    assert details["expected"] == "a RuntimeError: line 3, loss.backward()" and details["got"] == "ValueError: not so"
