"""The rules of 0.1 to 0.3, as that time's own documentation and source give them."""

import copy
import itertools

import pytest
import torch
from torch import nn

from course_utils import MemoryTracker
from course_utils.volatile import Variable

# (requires_grad, volatile): what a Variable could be.
STATES = ((False, False), (True, False), (False, True))


def flags(variable):
    return variable.requires_grad, variable.volatile


def flags_of_result(inputs):
    """compute_flags of 0.3, line by line.

    https://github.com/pytorch/pytorch/blob/v0.3.1/tools/autograd/templates/VariableType.cpp
    """
    requires_grad = is_volatile = False
    for input_requires_grad, input_is_volatile in inputs:
        requires_grad |= input_requires_grad
        is_volatile |= input_is_volatile
    requires_grad &= not is_volatile
    return requires_grad, is_volatile


@pytest.fixture
def x():
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).eval()


# The rule


BINARY = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a @ b.t(),
    lambda a, b: a.mul(b),
    lambda a, b: torch.mul(a, b),
    lambda a, b: nn.functional.mse_loss(a, b),
    lambda a, b: torch.stack([a, b]),
    lambda a, b: torch.where(a > 0, a, b),
]
UNARY = [lambda a: -a, lambda a: a**2, lambda a: 1 - a, lambda a: a[1:], torch.exp, lambda a: a.max(0)[0], torch.t]


def test_the_flags_of_a_result_are_those_of_the_old_source_for_every_kind_of_operation(x):
    for count in (1, 2, 3, 4):
        for states in itertools.product(STATES, repeat=count):
            variables = [Variable(torch.ones(2), *state) for state in states]
            assert flags(torch.cat(variables)) == flags_of_result(states), states
    for operation, states in itertools.product(BINARY, itertools.product(STATES, repeat=2)):
        assert flags(operation(*(Variable(x, *state) for state in states))) == flags_of_result(states), states
    for operation, state in itertools.product(UNARY, STATES):
        assert flags(operation(Variable(x, *state))) == state


CASES = {
    "a comparison is volatile, too": (lambda x: Variable(x, volatile=True) > 0, (False, True)),
    "a comparison is never flagged": (lambda x: Variable(x, requires_grad=True) > 0, (False, False)),
    "volatile survives detach": (lambda x: Variable(x, volatile=True).detach(), (False, True)),
    "a flag does not": (lambda x: (Variable(x, requires_grad=True) * 2).detach(), (False, False)),
    "a new variable around the data": (lambda x: Variable(Variable(x, volatile=True).data), (False, False)),
    "a shallow copy": (lambda x: copy.copy(Variable(x, volatile=True)), (False, True)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_each_of_these_gives(name, x):
    made, expected = CASES[name]
    assert flags(made(x)) == expected


def test_one_volatile_input_beats_any_number_of_flagged_parameters(model, x):
    # The example of the old notes: docs/source/notes/autograd.rst, "Excluding subgraphs from backward, volatile".
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model(Variable(x)).requires_grad
    result = model(Variable(x, volatile=True))
    assert flags(result) == (False, True)
    assert result.grad_fn is None


# Values, graphs and bytes are real


def test_values_and_gradients_are_those_of_today(model, x):
    result = model(Variable(x, volatile=True))
    assert torch.equal(result.data, model(x).detach())
    flagged = Variable(x, requires_grad=True)
    model(flagged).sum().backward()
    leaf = x.clone().requires_grad_()
    model(leaf).sum().backward()
    assert torch.equal(flagged.grad.data, leaf.grad)


def test_a_volatile_result_keeps_no_bytes_but_its_own(model, x):
    held = {}
    for volatile in (False, True):
        variable = Variable(x, volatile=volatile)
        with MemoryTracker(model, x) as mem:
            result = model(variable)
        held[volatile] = mem.current
        del result
    assert held[True] == 4 * 2 * 4  # rows, outputs, bytes each
    assert held[False] > held[True] + 4 * 8 * 4  # one activation at least


def test_a_volatile_result_of_today_s_tensors_has_no_history(x):
    assert not (Variable(x, volatile=True) * nn.Parameter(x)).requires_grad
    assert (nn.Parameter(x) * Variable(x)).requires_grad


def test_operations_do_not_look_at_today_s_grad_mode(x):
    with torch.no_grad():
        assert (Variable(x, requires_grad=True) * 2).requires_grad
        assert not torch.is_grad_enabled()
    Variable(x, volatile=True) * 2
    assert torch.is_grad_enabled()


def test_a_method_that_gives_back_its_tensor_gives_back_its_variable(x):
    variable = Variable(x, requires_grad=True)
    assert variable.contiguous() is variable


# Exclusive with requires_grad


def test_a_variable_cannot_be_made_with_both_flags(x):
    with pytest.raises(RuntimeError, match="can't be volatile and require_grad at the same time"):
        Variable(x, requires_grad=True, volatile=True)


def test_set_by_hand_both_flags_are_possible_and_volatile_wins(x):
    # python_variable.cpp of 0.3 looks at the other flag in the constructor alone.
    variable = Variable(x, requires_grad=True)
    variable.volatile = True
    assert flags(variable) == (True, True)
    assert flags(variable * 2) == (False, True)


# Leaves only


def test_volatile_can_be_set_on_leaves_only(x):
    leaf = Variable(x)
    leaf.volatile = True
    assert flags(leaf * 2) == (False, True)
    computed = Variable(x, requires_grad=True) * 2
    for value in (True, False):
        with pytest.raises(RuntimeError, match="volatile can only be set on leaf variables"):
            computed.volatile = value
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf variables"):
        computed.requires_grad = False


def test_a_volatile_result_is_a_leaf_so_its_flag_can_be_taken_off(x):
    result = Variable(x, volatile=True) * Variable(x, requires_grad=True)
    assert result.is_leaf
    result.volatile = False
    assert flags(result * Variable(x, requires_grad=True)) == (True, False)


# detach and backward


def test_detach_uses_the_same_memory(x):
    variable = Variable(x.clone(), requires_grad=True)
    variable.detach().data[0] = 7.0
    assert variable.data[0].tolist() == [7.0] * 3
    assert variable.data.data_ptr() == variable.detach().data.data_ptr()


def test_detach_in_place_makes_a_leaf_and_leaves_volatile_alone(x):
    computed = Variable(x, requires_grad=True) * 2
    computed.detach_()
    assert flags(computed) == (False, False)
    computed.volatile = True
    computed.detach_()
    assert flags(computed) == (False, True)


def test_backward_refuses_a_volatile_variable(x):
    with pytest.raises(RuntimeError, match="is volatile"):
        Variable(x, volatile=True).sum().backward()


# What is refused


@pytest.mark.parametrize(
    ("operation", "way_out"),
    [
        (lambda v: v.add_(1), "add, without the underscore"),
        (lambda v: torch.relu_(v), "relu, without the underscore"),
        (nn.ReLU(inplace=True), "relu with inplace=False"),
    ],
)
def test_in_place_operations_are_refused_and_change_nothing(operation, way_out, x):
    variable = Variable(x.clone(), volatile=True)
    with pytest.raises(NotImplementedError, match=way_out):
        operation(variable)
    assert torch.equal(variable.data, x)


def test_a_variable_wraps_tensors_only(x):
    for data in ([1.0, 2.0], 3.0, Variable(x)):
        with pytest.raises(TypeError, match="a tensor"):
            Variable(data)


# Form


def test_the_repr_shows_both_flags(x):
    assert repr(Variable(x, volatile=True)) == "Variable(f32[4, 3], requires_grad=False, volatile=True)"


def test_what_is_no_operation_is_the_tensor_s_own(x):
    variable = Variable(x, volatile=True)
    assert (variable.shape, variable.dtype, variable.dim(), len(variable)) == (x.shape, x.dtype, 2, 4)
    assert flags(variable.T) == (False, True)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = variable.no_such_name
