"""The lines that drills on flags and leaves are put together from. A step writes one or a few lines that are valid
where the program stands and returns True, or writes nothing and returns False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from course_utils.drills.programs import Draw
from course_utils.drills.trace import Trace, Value

Step = Callable[[Trace], bool]
Steps = Mapping[Step, float]

_VECTOR = ("exp()", "sin()", "cos()", "tanh()", "sigmoid()", "abs()", "round()", "clone()", "cumsum(0)", "softmax(0)")
_SCALAR = ("exp()", "sin()", "cos()", "tanh()", "sigmoid()", "abs()", "round()", "clone()")
_REDUCTIONS = ("sum()", "mean()", "max()", "norm()")
_ARITHMETIC = ("{x} * {k}", "{k} * {x}", "{x} + {k}", "{x} / {k}", "{x} ** 2", "-{x}", "{k} - {x}", "torch.relu({x})")
_PAIRS = ("{x} * {y}", "{x} + {y}", "{x} - {y}", "torch.maximum({x}, {y})", "torch.where({x} > 0, {x}, {y})")
# Operation, rule, shape of the result ("same" or a scalar), dtype, whether it shares memory with its source.
_CUTS = (
    ("{x}.detach()", "detach", "same", "", True),
    ("{x}.detach()", "detach", "same", "", True),
    ("{x}.data", "data", "same", "", True),
    ("{x}.detach().clone()", "detach", "same", "", False),
    ("torch.tensor({x}.tolist())", "tolist", "same", "f32", False),
    ("torch.ones_like({x})", "like", "same", "", False),
    ("torch.zeros_like({x})", "like", "same", "", False),
    ("{x} > 0", "compare", "same", "bool", False),
    ("{x} < 1", "compare", "same", "bool", False),
    ("{x}.long()", "integer", "same", "int", False),
    ("{x}.int()", "integer", "same", "int", False),
    ("{x}.argmax()", "position", "scalar", "int", False),
    ("{x}.argmin()", "position", "scalar", "int", False),
)


def number(draw: Draw) -> str:
    return draw.choice(("2", "3", "4", "5", "0.5", "10"))


def factory(draw: Draw, size: int) -> str:
    """A call that makes a float vector."""
    calls = [
        f"torch.ones({size})",
        f"torch.rand({size})",
        f"torch.randn({size})",
        f"torch.zeros({size})",
        f"torch.full(({size},), {draw.choice(('0.5', '1.5', '2.0', '3.0'))})",
        f"torch.arange({size}.0)",
        f"torch.linspace(0, 1, {size})",
    ]
    if size == 3:
        calls.append(f"torch.tensor([{', '.join(draw.sample(('0.5', '1.0', '1.5', '2.0', '3.0'), 3))}])")
    return draw.choice(calls)


def flagged_factory(draw: Draw, size: int) -> str:
    """A call that makes a float vector that requires grad."""
    call = factory(draw, size)
    return f"{call[:-1]}, requires_grad=True)" if draw.chance(0.75) else f"{call}.requires_grad_()"


def take(trace: Trace, steps: Steps) -> Step | None:
    """Takes one of the steps, drawn by weight among those that are possible here."""
    left = dict(steps)
    while left:
        step = trace.draw.weighted(left)
        if step(trace):
            return step
        del left[step]
    return None


# Picking operands.


def pick(trace: Trace, values: Sequence[Value]) -> Value | None:
    """One of the values, those that nothing uses yet before the others, and the newest before older ones."""
    if not values:
        return None
    return trace.draw.weighted({value: 4.0 if value.fresh else 1.0 + index / 4 for index, value in enumerate(values)})


def floats(trace: Trace, flagged: bool | None = None) -> list[Value]:
    values = dict.fromkeys(trace.values.values())
    return [v for v in values if v.is_float and (flagged is None or v.flag == flagged)]


def _partners(trace: Trace, value: Value, flagged: bool | None) -> list[Value]:
    """What can be combined with the value element by element."""
    return [
        other
        for other in floats(trace, flagged)
        if other is not value and (other.shape == value.shape or not other.shape or not value.shape)
    ]


# Steps: tensors made from nothing.


def create_plain(trace: Trace) -> bool:
    trace.create(factory(trace.draw, trace.size), "default", flag=False)
    return True


def create_flagged(trace: Trace) -> bool:
    trace.create(flagged_factory(trace.draw, trace.size), "raised", flag=True)
    return True


def create_parameter(trace: Trace) -> bool:
    trace.create(f"nn.Parameter({factory(trace.draw, trace.size)})", "parameter", flag=True)
    return True


def create_frozen_parameter(trace: Trace) -> bool:
    trace.create(f"nn.Parameter(torch.ones({trace.size}), requires_grad=False)", "unraised", flag=False)
    return True


def create_computed(trace: Trace) -> bool:
    """A line that creates a tensor that requires grad and goes on computing."""
    call = factory(trace.draw, trace.size)[:-1] + ", requires_grad=True)"
    tail = trace.draw.choice((" * 2", " / 10", " + 1", ".double()", ".double()", ".exp()", ".clone()"))
    kind = "f64" if tail == ".double()" else "f32"
    trace.create(call + tail, "raised", flag=True, computed=True, kind=kind)
    return True


# Steps: operations.


def compute_flagged(trace: Trace) -> bool:
    """An operation on at least one tensor that requires grad."""
    return _compute(trace, pick(trace, floats(trace, True)), None)


def compute_plain(trace: Trace) -> bool:
    """An operation on tensors that do not require grad."""
    return _compute(trace, pick(trace, floats(trace, False)), False)


def compute_again(trace: Trace) -> bool:
    """An operation whose result takes the name of its operand."""
    value = pick(trace, [v for v in floats(trace, True) if v.leaf and not v.shared])
    if value is None or not trace.recording:
        return False
    expression = trace.draw.choice(("{x} * {k}", "{x} / {k}", "{x} + {k}", "{x} - {k}"))
    trace.operate(expression.format(x=value.name, k=number(trace.draw)), [value], value.shape, into=value.name)
    return True


def compute_from_positions(trace: Trace) -> bool:
    """Back to floats from a tensor of integers or truth values."""
    value = pick(trace, [v for v in trace.values.values() if not v.is_float])
    if value is None or not trace.decidable([value]):
        return False
    expression = trace.draw.choice(("{x}.float()", "{x} * 0.5", "{x} / 2", "{x} + 0.5"))
    trace.operate(expression.format(x=value.name), [value], value.shape, "f32")
    return True


def _compute(trace: Trace, first: Value | None, others: bool | None) -> bool:
    """An operation on ``first``, alone or with others whose flag is ``others`` (None: any)."""
    if first is None:
        return False
    draw = trace.draw
    partners = _partners(trace, first, others)
    masks = [v for v in trace.values.values() if not v.is_float and v.shape in (first.shape, ())]
    if masks and draw.chance(0.5):
        return _operate(trace, "{x} * {y}", [first, masks[-1]])
    if len(partners) >= 2 and draw.chance(0.2):
        pattern = draw.choice(("{x} * {y} + {z}", "({x} - {y}) * {z}"))
        second, third = draw.sample(partners, 2)
        if first.shape or second.shape == third.shape:
            return _operate(trace, pattern, [first, second, third])
    if partners and draw.chance(0.6):
        return _compute_pair(trace, first, draw.choice(partners))
    if draw.chance(0.5):
        return _operate(trace, draw.choice(_ARITHMETIC), [first])
    if first.shape and draw.chance(0.3):
        return _operate(trace, "{x}." + draw.choice(_REDUCTIONS), [first], ())
    return _operate(trace, "{x}." + draw.choice(_VECTOR if first.shape else _SCALAR), [first])


def _compute_pair(trace: Trace, first: Value, second: Value) -> bool:
    draw = trace.draw
    pair = [first, second] if draw.chance(0.5) else [second, first]
    vectors = len(first.shape) == 1 and first.shape == second.shape and first.kind == second.kind
    if not vectors or draw.chance(0.75):
        return _operate(trace, draw.choice(_PAIRS), pair)
    length = first.shape[0]
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("{x} @ {y}", ()),
        ("torch.cat([{x}, {y}])", (2 * length,)),
        ("torch.stack([{x}, {y}])", (2, length)),
    )
    pattern, shape = draw.choice(shapes)
    return _operate(trace, pattern, pair, shape)


def _operate(trace: Trace, expression: str, operands: Sequence[Value], shape: tuple[int, ...] | None = None) -> bool:
    if not trace.decidable(operands):
        return False
    if shape is None:
        shape = max((value.shape for value in operands), key=len)
    names = dict(zip("xyz", (value.name for value in operands), strict=False))
    trace.operate(expression.format(**names, k=number(trace.draw)), operands, shape)
    return True


def cut(trace: Trace) -> bool:
    """An operation that leaves the history behind, on a tensor that requires grad."""
    value = pick(trace, floats(trace, True))
    if value is None or not trace.recording:
        return False
    expression, rule, shape, kind, shares = trace.draw.choice(_CUTS)
    if shape == "scalar" and not value.shape:
        return False
    result = () if shape == "scalar" else value.shape
    trace.cut(expression.format(x=value.name), value, rule, result, kind or value.kind, shares)
    return True


def detach(trace: Trace) -> bool:
    """``detach`` on a tensor that requires grad."""
    value = pick(trace, floats(trace, True))
    if value is None or not trace.recording:
        return False
    trace.cut(f"{value.name}.detach()", value, "detach", value.shape, value.kind, True)
    return True


def parameter_of(trace: Trace) -> bool:
    """``nn.Parameter`` of a computed tensor."""
    value = pick(trace, [v for v in floats(trace) if v.kind == "f32"])
    if value is None or not trace.recording:
        return False
    expression = trace.draw.choice(("{x}.exp()", "{x} * 2", "{x}.clone()", "{x} + 1", "{x}.abs()"))
    trace.parameter(expression.format(x=value.name), value)
    return True


def convert(trace: Trace) -> bool:
    """Another dtype: recorded like any operation."""
    value = pick(trace, [v for v in floats(trace, True) if v.kind == "f32"])
    if value is None or not trace.recording:
        return False
    trace.operate(f"{value.name}.double()", [value], value.shape, "f64")
    return True


def convert_nothing(trace: Trace) -> bool:
    """A conversion to what the tensor is already, which returns the tensor itself."""
    value = pick(trace, [v for v in floats(trace, True) if v.made and v.kind == "f32" and not v.shared])
    if value is None:
        return False
    trace.same(trace.draw.choice((".cpu()", ".float()", ".contiguous()", '.to("cpu")')), value)
    return True
