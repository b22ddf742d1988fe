"""More lines for drills on flags and leaves: views, in-place operations, flags, blocks and layers (see steps)."""

from __future__ import annotations

from course_utils.drills.programs import Reason
from course_utils.drills.steps import Step, Steps, floats, pick, take
from course_utils.drills.trace import Trace, Value

_VIEWS = ("[0]", "[1:]", "[:2]", "[-1]", ".view(-1, 1)", ".unsqueeze(0)", ".reshape(1, -1)")


def view_flagged(trace: Trace) -> bool:
    return _view(trace, True)


def view_plain(trace: Trace) -> bool:
    return _view(trace, False)


def _view(trace: Trace, flagged: bool) -> bool:
    values = [v for v in floats(trace, flagged) if len(v.shape) == 1 and v.shape[0] > 2]
    value = pick(trace, [v for v in values if trace.recording or not v.view])
    if value is None or not trace.decidable([value]):
        return False
    tail, size = trace.draw.choice(_VIEWS), value.shape[0]
    shape = {"[0]": (), "[-1]": (), "[1:]": (size - 1,), "[:2]": (2,), ".view(-1, 1)": (size, 1)}.get(tail, (1, size))
    trace.operate(value.name + tail, [value], shape, value.kind, view=True)
    return True


def write_flagged(trace: Trace) -> bool:
    """Writes a tensor that requires grad into one that does not."""
    sources = [v for v in floats(trace, True) if len(v.shape) == 1]
    pairs = [(t, s) for t in floats(trace, False) for s in sources if t.shape == s.shape and _editable(t)]
    if not pairs:
        return False
    target, source = trace.draw.choice(pairs)
    text = trace.draw.choice(
        ("{t}[0] = {s}[0]", "{t}[1:] = {s}[1:]", "{t} += {s}", "{t}.add_({s})", "{t}.copy_({s})", "{t}[0] = {s}.sum()")
    )
    trace.write_into(text.format(t=target.name, s=source.name), target, source)
    return True


def _editable(value: Value) -> bool:
    # The cause of a tensor that was computed would be overwritten, and with it what there was to learn.
    return value.fresh and value.leaf and value.made


def raise_flag(trace: Trace) -> bool:
    value = pick(
        trace, [v for v in floats(trace, False) if v.leaf and not v.view and v.kind == "f32" and not trace.viewed(v)]
    )
    if value is None or trace.nested:
        return False
    trace.raise_flag(value)
    return True


def raise_used_flag(trace: Trace) -> bool:
    """Raises the flag of a tensor from which others were computed before."""
    made = [v for v in floats(trace, False) if v.made and not trace.viewed(v)]
    used = [v for v in made if any(source is v for user in trace.values.values() for source, _ in user.sources)]
    if not used or trace.nested:
        return False
    trace.raise_flag(trace.draw.choice(used))
    return True


def lower_flag(trace: Trace) -> bool:
    value = pick(trace, [v for v in floats(trace, True) if v.leaf and v.made and not trace.viewed(v)])
    if value is None or trace.nested:
        return False
    trace.lower_flag(value)
    return True


def detach_in_place(trace: Trace) -> bool:
    values = [v for v in floats(trace, True) if v.fresh and not v.leaf and not v.view]
    if not values or trace.nested:
        return False
    trace.detach_in_place(trace.draw.choice(values))
    return True


def block(*bodies: Steps) -> Step:
    """A ``no_grad`` block, with an ``enable_grad`` block in it where there is a second body.

    Args:
        bodies: the steps for each depth, with their weights.
    """

    def step(trace: Trace) -> bool:
        if trace.nested or not floats(trace, True):
            return False
        with trace.mode(False):
            outside_first = len(bodies) == 1 or trace.draw.chance(0.5)
            if outside_first:
                take(trace, bodies[0])
            if len(bodies) > 1:
                with trace.mode(True):
                    take(trace, bodies[1])
                if not outside_first or trace.draw.chance(0.4):
                    take(trace, bodies[0])
        return True

    return step


def layer_plain(trace: Trace) -> bool:
    """A layer on an input that does not require grad: its parameters do."""
    return _layer(trace, False, "")


def layer_misspelt(trace: Trace) -> bool:
    """The attribute of a module freezes nothing."""
    return _layer(trace, False, "layer.requires_grad = False")


def layer_frozen(trace: Trace) -> bool:
    return _layer(trace, False, "layer.requires_grad_(False)")


def layer_frozen_between(trace: Trace) -> bool:
    """A frozen layer on an input that requires grad."""
    return _layer(trace, True, "layer.requires_grad_(False)")


def _layer(trace: Trace, flagged: bool, between: str) -> bool:
    inputs = [v for v in floats(trace, flagged) if len(v.shape) == 1 and v.kind == "f32" and not v.why_flag.cuts]
    value = pick(trace, inputs)
    if value is None or trace.nested or any("layer" in line for line in trace.lines):
        return False
    features = trace.draw.choice((1, 2, 3))
    trace.write(f"layer = nn.Linear({value.shape[0]}, {features})")
    line = trace.write(between) if between else 0
    if between.endswith("_(False)"):
        why = None if flagged else Reason(line, "frozen", cuts=True)
        trace.call("layer", value, False, why, features)
    else:
        rule = "misspelt" if between else "layer"
        trace.call("layer", value, True, Reason(line or len(trace.lines) + 1, rule), features)
    return True
