"""``Record``: the node that an operation leaves behind, and the walk from a result to the leaves."""

from types import SimpleNamespace
from typing import Any

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.engine import Node, Way, closed
from course_utils.lessons.own_engine._shared import ends, engine_of, play

Record = compared(__file__, Node=Node, Way=Way)


@Record.looks("gives the result of an operation its node and its flag", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    program = "made = engine.tensor(x.data); y = engine.record('same', made, (w, lambda g: g))"
    yield "record", play(Record, trial, "record", program, "returns its result: y is made")
    seen = "name of the node: y.node.name; requires grad: y.requires_grad; gradient of w: w.grad"
    yield "a sum", play(Record, trial, "record", "y = w + x; y.backward(np.ones(3))", seen)
    program = "h = w + x; y = h + x; y.backward(np.ones(3))"
    yield "two sums", play(Record, trial, "record", program, "gradient of w: w.grad")


@Record.looks("keeps the ways to inputs that require grad, and what was saved for them alone", weight=2)
def _(trial: Trial) -> Seen:
    seen = "ways back: len(y.node.ways); bytes saved: engine.bytes_held(y)"
    for call in ("w * x", "x * w", "w * v", "w + x"):
        yield call, play(Record, trial, "record", f"y = {call}", seen)


@Record.looks("leaves a result alone where `self.records` says no", "flags alone")
def _(trial: Trial) -> Seen:
    seen = "requires grad: y.requires_grad; has no node: y.node is None"
    yield "in no_grad", play(Record, trial, "record", "with engine.no_grad():\n    y = w * x", seen)
    yield "of plain tensors", play(Record, trial, "record", "y = x * x", seen)


@Record.looks("saves with `self.save`, which notes the version", "as it is")
def _(trial: Trial) -> Seen:
    yield "nothing edited", ends(Record, trial, "record", "(w * x).sum().backward()")
    program = "y = w * x; x.mul_(2.0); y.sum().backward()"
    yield "backward after an edit", ends(Record, trial, "record", program)


@Record.looks("walks to each node once, and after all that was made of it", "order", weight=4)
def _(trial: Trial) -> Seen:
    lines = "a = w.tanh(); b = a * x; c = b.exp(); y = ({}).sum()"
    seen = "order: ' '.join(node.name for node in engine.walk(y.node))"
    for last in ("c * a + b", "b + a * c"):  # who goes deep first errs in one of them
        yield f"with {last}", play(Record, trial, "walk", lines.format(last), seen)


class _Counted(Node):
    """A node that counts how often it is asked for its inputs, and compared with another one."""

    asked = compared = 0
    __hash__ = Node.__hash__

    def __eq__(self, other: object) -> bool:
        type(self).compared += 1
        return self is other

    @property
    def inputs(self) -> list[Any]:
        type(self).asked += 1
        return [way.node for way in self.ways]


@Record.looks("takes time for each node, not for each path or pair of nodes", "list")
def _(trial: Trial) -> Seen:
    kind = type("Counted", (_Counted,), {})
    node, made = kind("leaf", SimpleNamespace(shape=(3,), hooks=[])), SimpleNamespace(shape=(3,), hooks=[])
    for at in range(200):
        node = kind("add", made, [Way(node, None, [])] * (2 if at < 10 else 1))
    engine = engine_of(Record, trial, "walk")
    shown = "engine.walk(y.node), 200 additions, ten of them y + y"
    found = trial.run(lambda: len(list(engine.walk(node))), called=shown, within=closed(Record.name))
    yield "nodes found", found
    yield "each node is asked for its inputs more than ten times", kind.asked > 10 * 201
    yield "comparisons for each node", AtMost(kind.compared // 201)
