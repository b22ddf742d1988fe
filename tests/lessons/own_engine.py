"""Right and wrong answers to the exercises of lesson 12."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from course_utils.engine.whole import Tensor
from tests.lessons.answers import Right, Wrong

# -------------------------------------------------------------------------------------------------------------- Record


class RecordByRecursion:
    """Depth first, inputs before users, then the other way round."""

    def matmul(self, a, b):
        y = self.tensor(np.dot(a.data, b.data))
        to_b = (b, lambda g, x: np.dot(x.transpose(), g), a)
        return self.record("matmul", y, (a, lambda g, w: np.dot(g, w.transpose()), b), to_b)

    def tanh(self, x):
        y = self.tensor(np.tanh(x.data))
        return self.record("tanh", y, (x, lambda g, y: g - g * y**2, y))

    def sum(self, x):
        ones = np.ones(x.shape)
        return self.record("sum", self.tensor(np.sum(x.data)), (x, lambda g: g * ones))

    def walk(self, node):
        order, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for before in node.inputs:
                    visit(before)
                order.append(node)

        visit(node)
        return order[::-1]

    def backward(self, result, gradient):
        first = self.target(result)
        gradients = {node: [None] * len(node.shapes) for node in self.walk(first.node)}
        gradients[first.node][first.slot] = gradient
        for node in self.walk(first.node):
            for target, g in self.run(node, gradients[node]):
                there = gradients[target.node]
                there[target.slot] = g if there[target.slot] is None else there[target.slot] + g


class RecordUpstream(RecordByRecursion):
    def tanh(self, x):
        y = self.tensor(np.tanh(x.data))
        return self.record("tanh", y, (x, lambda g, y: 1 - y * y, y))


class RecordFromTheInput(RecordByRecursion):
    def tanh(self, x):
        return self.record("tanh", self.tensor(np.tanh(x.data)), (x, lambda g, x: g * (1 - x * x), x))


class RecordMatmulOrder(RecordByRecursion):
    def matmul(self, a, b):
        y = self.tensor(a.data @ b.data)
        return self.record("matmul", y, (a, lambda g, b: b.T @ g, b), (b, lambda g, a: g @ a.T, a))


class RecordNotTransposed(RecordByRecursion):
    def matmul(self, a, b):
        y = self.tensor(a.data @ b.data)
        return self.record("matmul", y, (a, lambda g, b: g @ b, b), (b, lambda g, a: a @ g, a))


class RecordOneNumber(RecordByRecursion):
    def sum(self, x):
        return self.record("sum", self.tensor(x.data.sum()), (x, lambda g: g))


class RecordOrderOfB(RecordByRecursion):
    def matmul(self, a, b):
        y = self.tensor(a.data @ b.data)
        return self.record("matmul", y, (a, lambda g, b: g @ b.T, b), (b, lambda g, a: g @ a.T, a))


class RecordOtherWayRound(RecordByRecursion):
    def matmul(self, a, b):
        y = self.tensor(a.data @ b.data)
        return self.record("matmul", y, (a, lambda g, b: g @ b.T, b), (b, lambda g, a: g.T @ a, a))


class RecordBuiltIn(RecordByRecursion):
    def sum(self, x):
        return self.record("sum", self.tensor(sum(x.data)), (x, lambda g, shape=x.shape: np.full(shape, g)))


class RecordSavesArrays(RecordByRecursion):
    def tanh(self, x):
        y = self.tensor(np.tanh(x.data))
        return self.record("tanh", y, (x, lambda g, y: g * (1 - y * y), y.data))


class RecordSeesItsResult(RecordByRecursion):
    def tanh(self, x):
        y = self.tensor(np.tanh(x.data))
        return self.record("tanh", y, (x, lambda g: g * (1 - y.data**2)))


class RecordSeesItsInput(RecordByRecursion):
    def sum(self, x):
        return self.record("sum", self.tensor(x.data.sum()), (x, lambda g: g * np.ones_like(x.data)))


class RecordNoLeaves(RecordByRecursion):
    def walk(self, node):
        return [each for each in RecordByRecursion.walk(self, node) if each.ways]


class RecordUnsaved(RecordByRecursion):
    def matmul(self, a, b):
        y = self.tensor(a.data @ b.data)
        return self.record("matmul", y, (a, lambda g: g @ b.data.T), (b, lambda g: a.data.T @ g))


class RecordHoldsTheInput(RecordByRecursion):
    def tanh(self, x):
        y = self.tensor(np.tanh(x.data))
        return self.record("tanh", y, (x, lambda g, x: g / np.cosh(x) ** 2, x))


class RecordHoldsForTheShape(RecordByRecursion):
    def sum(self, x):
        return self.record("sum", self.tensor(x.data.sum()), (x, lambda g, x: g * np.ones_like(x), x))


class RecordHoldsBoth(RecordByRecursion):
    """One way for both inputs, which saves for the one what the other needs."""

    def matmul(self, a, b):
        y = self.tensor(a.data @ b.data)
        return self.record("matmul", y, ([a, b], lambda g, a, b: (g @ b.T, a.T @ g), a, b))


class RecordPathByPath(RecordByRecursion):
    """A recursion that visits a shared node once for each path."""

    def backward(self, result, gradient):
        def go(node, slot, gradient):
            gradients = [None] * len(node.shapes)
            gradients[slot] = gradient
            for target, g in self.run(node, gradients):
                go(target.node, target.slot, g)

        first = self.target(result)
        go(first.node, first.slot, gradient)


class RecordOldestFirst(RecordByRecursion):
    """One flat loop over the nodes in the order of their creation."""

    def walk(self, node):
        return sorted(super().walk(node), key=lambda node: node.number)


class RecordNearestFirst(RecordByRecursion):
    """Breadth first from the result."""

    def walk(self, node):
        found = [node]
        for each in found:
            found += [other for other in dict.fromkeys(each.inputs) if other not in found]
        return found


class RecordDeepFirst(RecordByRecursion):
    """Depth first, each node before its inputs."""

    inputs = staticmethod(lambda node: node.inputs)

    def walk(self, node):
        order = []

        def visit(node):
            if node not in order:
                order.append(node)
                for before in self.inputs(node):
                    visit(before)

        visit(node)
        return order


class RecordDeepLastFirst(RecordDeepFirst):
    inputs = staticmethod(lambda node: node.inputs[::-1])


class RecordInPlace(RecordByRecursion):
    def backward(self, result, gradient):
        first = self.target(result)
        arrived = {first.node: {first.slot: gradient}}
        for node in self.walk(first.node):
            gradients = [arrived[node].get(slot) for slot in range(len(node.shapes))]
            for target, g in self.run(node, gradients):
                there = arrived.setdefault(target.node, {})
                if target.slot in there:
                    there[target.slot] += g
                else:
                    there[target.slot] = g


class RecordNoSlot(RecordByRecursion):
    def backward(self, result, gradient):
        arrived = {self.target(result).node: gradient}
        for node in self.walk(self.target(result).node):
            for target, g in self.run(node, [arrived[node]] + [None] * (len(node.shapes) - 1)):
                arrived[target.node] = arrived[target.node] + g if target.node in arrived else g


class RecordStartsAtSlot0(RecordByRecursion):
    def backward(self, result, gradient):
        slot, result.slot = result.slot, 0
        super().backward(result, gradient)
        result.slot = slot


class RecordZeros(RecordByRecursion):
    """What did not come is handed as zeros."""

    missing = staticmethod(np.zeros)

    def backward(self, result, gradient):
        first = self.target(result)
        arrived = {(first.node, first.slot): gradient}
        for node in self.walk(first.node):
            gradients = [arrived.get((node, slot), self.missing(shape)) for slot, shape in enumerate(node.shapes)]
            if self.is_left_out(gradients):
                continue
            for target, g in self.run(node, gradients):
                key = target.node, target.slot
                arrived[key] = arrived[key] + g if key in arrived else g

    def is_left_out(self, gradients):
        return False


class RecordNoLeavesByPairs(RecordZeros):
    missing = staticmethod(lambda shape: None)
    walk = RecordNoLeaves.walk


class RecordSkipped(RecordZeros):
    missing = staticmethod(lambda shape: None)

    def is_left_out(self, gradients):
        return all(g is None for g in gradients)


class RecordOverwritten(RecordByRecursion):
    def backward(self, result, gradient):
        first = self.target(result)
        gradients = {(first.node, first.slot): gradient}
        for node in self.walk(first.node):
            for target, g in self.run(node, [gradients.get((node, slot)) for slot in range(len(node.shapes))]):
                gradients[target.node, target.slot] = g


class RecordOnes(RecordByRecursion):
    def backward(self, result, gradient):
        super().backward(result, np.ones(result.shape))


# -------------------------------------------------------------------------------------------------------------- Shapes


class ShapesByLoops:
    """Axis after axis, and pieces cut by hand."""

    def fit(self, gradient, shape):
        while gradient.ndim > len(shape):
            gradient = gradient.sum(axis=0)
        for axis, size in enumerate(shape):
            if size == 1 and gradient.shape[axis] != 1:
                gradient = gradient.sum(axis=axis, keepdims=True)
        return gradient

    def through(self, node, gradients):
        arrays = [np.zeros(node.shapes[i]) if g is None else g for i, g in enumerate(gradients)]
        found = []
        for way in node.ways:
            found += [(target, self.fit(g, target.shape)) for target, g in way.back(arrays, self.unsave(way))]
        return found

    def split(self, x, sizes):
        pieces, start = [], 0
        for size in sizes:
            pieces.append(Tensor(self, x.data[start : start + size], memory=x.memory))
            start += size
        x.memory.viewed = True
        return self.record(
            "split",
            pieces,
            (x, lambda *gradients: np.vstack([*gradients]) if x.data.ndim > 1 else np.hstack(gradients)),
        )


class ShapesGenerator(ShapesByLoops):
    """Pairs one by one, pieces in a tuple."""

    def through(self, node, gradients):
        arrays = [np.zeros(node.shapes[i]) if g is None else g for i, g in enumerate(gradients)]
        for way in node.ways:
            for target, g in way.back(arrays, self.unsave(way)):
                yield target, self.fit(g, target.shape)

    def split(self, x, sizes):
        x.memory.viewed = True
        pieces = tuple(Tensor(self, part, memory=x.memory) for part in np.split(x.data, np.cumsum(sizes)[:-1]))
        return self.record("split", pieces, (x, lambda *gradients: np.concatenate(gradients)))


class ShapesLeadingOnly(ShapesByLoops):
    def fit(self, gradient, shape):
        return gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))


class ShapesUnshifted(ShapesByLoops):
    def summed(self, gradient, shape, **how):
        ones = {axis for axis, size in enumerate(shape) if size == 1}
        return gradient.sum(axis=tuple(ones | set(range(gradient.ndim - len(shape)))), **how)

    def fit(self, gradient, shape):
        return self.summed(gradient, shape, keepdims=True)[(0,) * (gradient.ndim - len(shape))]


class ShapesUnshiftedReshaped(ShapesUnshifted):
    def fit(self, gradient, shape):
        return self.summed(gradient, shape).reshape(shape)


class ShapesNumbersKept(ShapesByLoops):
    def fit(self, gradient, shape):
        for _ in range(gradient.ndim - len(shape)):
            gradient = gradient.sum(axis=0)
        for axis, size in enumerate(shape):
            if size == 1:
                gradient = gradient.sum(axis=axis)
        return np.asarray(gradient).reshape(shape)


class ShapesDropped(ShapesByLoops):
    def fit(self, gradient, shape):
        gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
        return gradient.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1))


class ShapesAtTheFront(ShapesByLoops):
    def fit(self, gradient, shape):
        gradient = gradient.sum(axis=tuple(range(len(shape), gradient.ndim)))
        return gradient.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)


class ShapesReshaped(ShapesByLoops):
    def fit(self, gradient, shape):
        return gradient.reshape(shape)


class ShapesSizes(ShapesByLoops):
    places = staticmethod(lambda sizes: sizes)

    def split(self, x, sizes):
        x.memory.viewed = True
        pieces = [Tensor(self, part, memory=x.memory) for part in np.split(x.data, self.places(sizes))]
        return self.record("split", pieces, (x, lambda *gradients: np.concatenate(gradients)))


class ShapesSizesButTheLast(ShapesSizes):
    places = staticmethod(lambda sizes: sizes[:-1])


class ShapesAllSums(ShapesSizes):
    places = staticmethod(np.cumsum)


class ShapesOneGradient(ShapesByLoops):
    """A way for each piece."""

    def split(self, x, sizes):
        x.memory.viewed = True
        pieces = [Tensor(self, part, memory=x.memory) for part in np.split(x.data, np.cumsum(sizes)[:-1])]
        return self.record("split", pieces, *[(x, lambda g: g) for _ in pieces])


class ShapesMean(ShapesByLoops):
    def fit(self, gradient, shape):
        while gradient.ndim > len(shape):
            gradient = gradient.mean(axis=0)
        ones = tuple(axis for axis, size in enumerate(shape) if size == 1)
        return gradient.mean(axis=ones, keepdims=True) if ones else gradient


class ShapesLeavesOnly(ShapesByLoops):
    def through(self, node, gradients):
        arrays = [np.zeros(shape) if g is None else g for g, shape in zip(gradients, node.shapes, strict=True)]
        return [pair for way in node.ways for pair in way.back(arrays, self.unsave(way))]

    def accumulate(self, x, gradient):
        gradient = self.fit(np.asarray(gradient), x.shape)
        x.grad = gradient if x.grad is None else x.grad + gradient


class ShapesNowhereFitted(ShapesByLoops):
    through = ShapesLeavesOnly.through


class ShapesNodeEach(ShapesByLoops):
    def split(self, x, sizes):
        pieces, start = [], 0
        for size in sizes:

            def spread(g, start=start, size=size, shape=x.shape):
                whole = np.zeros(shape)
                whole[start : start + size] = g
                return whole

            piece = Tensor(self, x.data[start : start + size], memory=x.memory)
            pieces.append(self.record("split", piece, (x, spread)))
            start += size
        return pieces


class ShapesCopies(ShapesByLoops):
    def split(self, x, sizes):
        pieces = [self.tensor(part.copy()) for part in np.split(x.data, np.cumsum(sizes)[:-1])]
        return self.record("split", pieces, (x, lambda *gradients: np.concatenate(gradients)))


class ShapesNotMarked(ShapesByLoops):
    def split(self, x, sizes):
        pieces = [Tensor(self, part, memory=x.memory) for part in np.split(x.data, np.cumsum(sizes)[:-1])]
        return self.record("split", pieces, (x, lambda *gradients: np.concatenate(gradients)))


class ShapesMarkedIfRecorded(ShapesByLoops):
    def split(self, x, sizes):
        before = x.memory.viewed
        pieces = super().split(x, sizes)
        x.memory.viewed = x.requires_grad or before
        return pieces


class ShapesUnused(ShapesByLoops):
    def through(self, node, gradients):
        pairs = [pair for way in node.ways for pair in way.back(gradients, self.unsave(way))]
        return [(target, self.fit(np.asarray(g), target.shape)) for target, g in pairs]


class ShapesLeftOut(ShapesByLoops):
    def through(self, node, gradients):
        arrays = [g for g in gradients if g is not None]
        pairs = [pair for way in node.ways for pair in way.back(arrays, self.unsave(way))]
        return [(target, self.fit(g, target.shape)) for target, g in pairs]


class ShapesZerosOfTheFirst(ShapesByLoops):
    def through(self, node, gradients):
        arrays = [np.zeros(node.shapes[0]) if g is None else g for g in gradients]
        pairs = [pair for way in node.ways for pair in way.back(arrays, self.unsave(way))]
        return [(target, self.fit(g, target.shape)) for target, g in pairs]


class ShapesZerosOfWhatCame(ShapesByLoops):
    def through(self, node, gradients):
        came = next(g for g in gradients if g is not None)
        arrays = [np.zeros_like(came) if g is None else g for g in gradients]
        pairs = [pair for way in node.ways for pair in way.back(arrays, self.unsave(way))]
        return [(target, self.fit(g, target.shape)) for target, g in pairs]


class ShapesAroundUnsave(ShapesByLoops):
    def through(self, node, gradients):
        arrays = [np.zeros(shape) if g is None else g for g, shape in zip(gradients, node.shapes, strict=True)]
        pairs = [pair for way in node.ways for pair in way.back(arrays, [array for array, *_ in way.saved])]
        return [(target, self.fit(g, target.shape)) for target, g in pairs]


# ------------------------------------------------------------------------------------------------------------- Control


class NoGrad:
    def __init__(self, engine):
        self.engine = engine

    def __enter__(self):
        self.before = self.engine.enabled
        self.engine.enabled = False

    def __exit__(self, *error):
        self.engine.enabled = self.before


class ControlByClass:
    """The mode by a class of its own, a detached twin by hand."""

    def records(self, inputs):
        flags = [x.requires_grad for x in inputs]
        return True in flags if self.enabled else False

    def no_grad(self):
        return NoGrad(self)

    def detach(self, x):
        twin = self.tensor(x.data)
        twin.memory = x.memory
        return twin

    def accumulate(self, x, gradient):
        if not x.requires_grad:
            return
        if x.grad is None:
            x.grad = np.zeros(x.shape)
        x.grad += gradient

    def retain_grad(self, x):
        if not x.requires_grad:
            raise RuntimeError("it does not require grad")
        if x.node is not None:
            x.node.keeps[x.slot] = x


class ControlAll(ControlByClass):
    def records(self, inputs):
        return self.enabled and all(x.requires_grad for x in inputs)


class ControlIgnoresTheMode(ControlByClass):
    def records(self, inputs):
        return any(x.requires_grad for x in inputs)


class ControlClearsFlags(ControlByClass):
    def records(self, inputs):
        if not self.enabled:
            for x in inputs:
                x.requires_grad = False
        return any(x.requires_grad for x in inputs)


class ControlAlwaysOn(ControlByClass):
    @contextmanager
    def no_grad(self):
        self.enabled = False
        try:
            yield
        finally:
            self.enabled = True


class ControlOnlyWithoutError(ControlByClass):
    @contextmanager
    def no_grad(self):
        before, self.enabled = self.enabled, False
        yield
        self.enabled = before


class ControlSwallows(ControlByClass):
    def no_grad(self):
        class Swallows(NoGrad):
            def __exit__(self, *error):
                super().__exit__(*error)
                return True

        return Swallows(self)


class ControlSuppresses(ControlByClass):
    @contextmanager
    def no_grad(self):
        before, self.enabled = self.enabled, False
        try:
            yield
        except Exception:
            pass
        finally:
            self.enabled = before


class ControlNotedEarly(ControlByClass):
    def no_grad(self):
        @contextmanager
        def block(before):
            self.enabled = False
            try:
                yield
            finally:
                self.enabled = before

        return block(self.enabled)


class ControlItself(ControlByClass):
    def detach(self, x):
        x.node, x.requires_grad = None, False
        return x


class ControlCopy(ControlByClass):
    def detach(self, x):
        return self.tensor(x.data.copy())


class ControlOwnCounter(ControlByClass):
    def detach(self, x):
        return self.tensor(x.data)


class ControlNodes(ControlByClass):
    def records(self, inputs):
        return self.enabled and any(x.node is not None for x in inputs)


class ControlNoTwin(ControlByClass):
    def detach(self, x):
        return self.tensor(x)


class ControlViewed(ControlByClass):
    def detach(self, x):
        x.memory.viewed = True
        return Tensor(self, x.data, memory=x.memory)


class ControlSlot(ControlByClass):
    def retain_grad(self, x):
        if not x.requires_grad:
            raise RuntimeError("it does not require grad")
        if x.node is not None:
            x.node.keeps[0] = x


class ControlKind(ControlByClass):
    def retain_grad(self, x):
        if not x.requires_grad:
            raise ValueError("it does not require grad")
        super().retain_grad(x)


class ControlLowered(ControlByClass):
    def accumulate(self, x, gradient):
        x.grad = np.array(gradient) if x.grad is None else x.grad + gradient


class ControlLeafKept(ControlByClass):
    def retain_grad(self, x):
        if not x.requires_grad:
            raise RuntimeError("it does not require grad")
        x.node.keeps[x.slot] = x


class ControlGenerator(ControlByClass):
    def no_grad(self):
        before, self.enabled = self.enabled, False
        try:
            yield
        finally:
            self.enabled = before


class ControlAlias(ControlByClass):
    def accumulate(self, x, gradient):
        if x.requires_grad:
            x.grad = gradient if x.grad is None else x.grad + gradient


class ControlAliasInPlace(ControlByClass):
    def accumulate(self, x, gradient):
        if not x.requires_grad:
            return
        if x.grad is None:
            x.grad = gradient
        else:
            x.grad += gradient


class ControlOverwritten(ControlByClass):
    def accumulate(self, x, gradient):
        if x.requires_grad:
            x.grad = np.array(gradient)


class ControlZeros(ControlByClass):
    """Every flagged tensor begins with zeros."""

    def tensor(self, data, requires_grad=False):
        if isinstance(data, Tensor):
            return data
        made = Tensor(self, data, requires_grad)
        made.grad = np.zeros(made.shape) if requires_grad else None
        return made


# -------------------------------------------------------------------------------------------------------------- Memory


class MemoryInObjects:
    """One loop, and the bytes by a set."""

    def save(self, x):
        return (x.data, x.memory, x.memory.version)

    def write(self, x, values):
        np.copyto(x.data, values)
        x.memory.version = x.memory.version + 1

    def unsave(self, way):
        if way.saved is None:
            raise RuntimeError("freed")
        arrays = []
        for array, memory, version in way.saved:
            if version < memory.version:
                raise RuntimeError("edited in place")
            arrays.append(array)
        if len(arrays) > 0 and self.retain_graph is False:
            way.saved = None
        return arrays

    def bytes_held(self, result):
        seen, total = set(), 0
        for node in self.walk(result.node):
            for way in node.ways:
                for _, memory, _ in way.saved if way.saved is not None else []:
                    if memory not in seen:
                        seen.add(memory)
                        total += memory.nbytes
        return total


class MemoryNeverFreed(MemoryInObjects):
    def unsave(self, way):
        if any(version != memory.version for _, memory, version in way.saved):
            raise RuntimeError("edited in place")
        return [array for array, *_ in way.saved]


class MemoryValueError(MemoryInObjects):
    def unsave(self, way):
        try:
            return super().unsave(way)
        except RuntimeError as error:
            raise ValueError(*error.args) from None


class MemoryFreedUnasked(MemoryInObjects):
    def unsave(self, way):
        arrays = []
        for array, memory, version in way.saved:
            if memory.version != version:
                raise RuntimeError("edited in place")
            arrays.append(array)
        way.saved = way.saved if self.retain_graph or not arrays else None
        return arrays


class MemoryFreedToAList(MemoryInObjects):
    def unsave(self, way):
        arrays = super().unsave(way)
        way.saved = [] if way.saved is None else way.saved
        return arrays


class MemoryTensorSaved(MemoryInObjects):
    def save(self, x):
        return x, x.memory, x.memory.version

    def unsave(self, way):
        return [x.data for x in super().unsave(way)]


class MemoryLeaves(MemoryInObjects):
    def bytes_held(self, result):
        nodes = self.walk(result.node)
        held = {memory for node in nodes for way in node.ways for _, memory, _ in way.saved or ()}
        held |= {x.memory for node in nodes for x in node.keeps if x}
        return sum(memory.nbytes for memory in held)


class MemoryRetainIgnored(MemoryInObjects):
    def unsave(self, way):
        arrays = super().unsave(way)
        way.saved = None if arrays else way.saved
        return arrays


class MemoryNothingSaved(MemoryInObjects):
    def unsave(self, way):
        arrays = super().unsave(way)
        way.saved = way.saved if self.retain_graph else None
        return arrays


class MemoryNothingIsFreed(MemoryInObjects):
    def unsave(self, way):
        if not way.saved:
            raise RuntimeError("freed")
        return super().unsave(way)


class MemoryRebound(MemoryInObjects):
    def write(self, x, values):
        x.data = np.array(values)
        x.memory.version += 1


class MemoryUnnoticed(MemoryInObjects):
    """A reference is saved, which is edited later."""

    def unsave(self, way):
        if way.saved is None:
            raise RuntimeError("freed")
        arrays = [array for array, *_ in way.saved]
        way.saved = way.saved if self.retain_graph or not arrays else None
        return arrays


class MemoryNotCounted(MemoryInObjects):
    def write(self, x, values):
        x.data[...] = values


class MemoryFirstAlone(MemoryInObjects):
    seen = staticmethod(lambda saved: saved[:1])

    def unsave(self, way):
        if way.saved is None:
            raise RuntimeError("freed")
        if any(version != memory.version for _, memory, version in self.seen(way.saved)):
            raise RuntimeError("edited in place")
        arrays = [array for array, *_ in way.saved]
        way.saved = way.saved if self.retain_graph or not arrays else None
        return arrays


class MemoryLastAlone(MemoryFirstAlone):
    seen = staticmethod(lambda saved: saved[-1:])


class MemoryCountsChanges(MemoryInObjects):
    def write(self, x, values):
        x.memory.version += not np.array_equal(x.data, values)
        x.data[...] = values


class MemoryEveryEdit(MemoryInObjects):
    edits = 0

    def save(self, x):
        return x.data, x.memory, self.edits

    def write(self, x, values):
        x.data[...] = values
        self.edits += 1

    def unsave(self, way):
        if way.saved is None:
            raise RuntimeError("freed")
        if any(edits != self.edits for *_, edits in way.saved):
            raise RuntimeError("edited in place")
        arrays = [array for array, *_ in way.saved]
        way.saved = way.saved if self.retain_graph or not arrays else None
        return arrays


class MemoryCopy(MemoryUnnoticed):
    def save(self, x):
        return x.data.copy(), x.memory, x.memory.version


class MemoryCopyChecked(MemoryInObjects):
    def save(self, x):
        return np.array(x.data), x.memory, x.memory.version


class MemoryArrayBytes(MemoryInObjects):
    def bytes_held(self, result):
        ways = [way for node in self.walk(result.node) for way in node.ways]
        return sum({id(array): array.nbytes for way in ways for array, *_ in way.saved or ()}.values())


class MemoryFreedFirst(MemoryInObjects):
    def unsave(self, way):
        saved = way.saved
        if saved is None:
            raise RuntimeError("freed")
        way.saved = saved if self.retain_graph or not saved else None
        if any(version != memory.version for _, memory, version in saved):
            raise RuntimeError("edited in place")
        return [array for array, *_ in saved]


class MemoryCountedByArray(MemoryInObjects):
    """Pieces are arrays of their own, on one memory."""

    def bytes_held(self, result):
        ways = [way for node in self.walk(result.node) for way in node.ways]
        held = {id(array): memory for way in ways for array, memory, _ in way.saved or ()}
        return sum(memory.nbytes for memory in held.values())


class MemoryCountsTheFreed(MemoryInObjects):
    def bytes_held(self, result):
        held = {}
        for node in self.walk(result.node):
            for way in node.ways:
                for _, memory, _ in way.saved:
                    held[id(memory)] = memory.nbytes
        return sum(held.values())


class MemoryCountedTwice(MemoryInObjects):
    def bytes_held(self, result):
        ways = [way for node in self.walk(result.node) for way in node.ways]
        return sum(memory.nbytes for way in ways for _, memory, _ in way.saved or ())


# -------------------------------------------------------------------------------------------------------------- Extend


class Kept:
    """A context as a class."""

    def __init__(self):
        self.kept = ()

    def save_for_backward(self, *tensors):
        self.kept = tensors


class ExtendByClass:
    def apply(self, function, *inputs):
        context, tensors = Kept(), list(map(self.tensor, inputs))
        with self.no_grad():
            result = self.tensor(function.forward(context, *tensors))
        if any(result is x for x in tensors):
            result = Tensor(self, result.data, memory=result.memory)

        def rule(gradient, *arrays):
            context.saved_tensors = list(arrays)
            try:
                return function.backward(context, gradient)
            finally:
                del context.saved_tensors

        kept, context.kept = context.kept, ()
        return self.record(function.__name__, result, (tensors, rule, *kept))

    def register_hook(self, x, hook):
        x.hooks += [hook]

    def hooked(self, hooks, gradient):
        for hook in list(hooks):
            answer = hook(gradient)
            gradient = answer if answer is not None else gradient
        return gradient

    def register_post_accumulate_grad_hook(self, x, hook):
        x.after += [hook]

    def accumulated(self, x):
        _ = [hook(x) for hook in x.after]


class ExtendRecordedInside(ExtendByClass):
    def apply(self, function, *inputs):
        context, tensors = Kept(), list(map(self.tensor, inputs))
        result = self.detach(function.forward(context, *tensors))

        def rule(gradient, *arrays):
            context.saved_tensors = arrays
            return function.backward(context, gradient)

        return self.record(function.__name__, result, (tensors, rule, *context.kept))


class ExtendRecordsInside(ExtendByClass):
    def apply(self, function, *inputs):
        with self.no_grad():
            return super().apply(function, *inputs)


class ExtendNewLists(ExtendByClass):
    def register_hook(self, x, hook):
        x.hooks = [*x.hooks, hook]

    def register_post_accumulate_grad_hook(self, x, hook):
        x.after = [*x.after, hook]


class ExtendOnceEach(ExtendByClass):
    def apply(self, function, *inputs):
        context, tensors = Kept(), list(map(self.tensor, inputs))
        with self.no_grad():
            result = self.detach(function.forward(context, *tensors))

        def rule_of(index):
            def rule(gradient, *arrays):
                context.saved_tensors = arrays
                return function.backward(context, gradient)[index]

            return rule

        ways = [(x, rule_of(index), *context.kept) for index, x in enumerate(tensors)]
        return self.record(function.__name__, result, *ways)


class ExtendAroundSave(ExtendByClass):
    def apply(self, function, *inputs):
        context, tensors = Kept(), list(map(self.tensor, inputs))
        with self.no_grad():
            result = self.detach(function.forward(context, *tensors))
        context.saved_tensors = [x.data for x in context.kept]
        return self.record(function.__name__, result, (tensors, lambda g: function.backward(context, g)))


class ExtendItsInput(ExtendByClass):
    def apply(self, function, *inputs):
        context = SimpleNamespace(kept=())
        context.save_for_backward = lambda *tensors: setattr(context, "kept", tensors)
        tensors = [self.tensor(x) for x in inputs]
        with self.no_grad():
            result = function.forward(context, *tensors)

        def rule(gradient, *arrays):
            context.saved_tensors = arrays
            return function.backward(context, gradient)

        return self.record(function.__name__, result, (tensors, rule, *context.kept))


class ExtendNotTensors(ExtendByClass):
    def apply(self, function, *inputs):
        context = Kept()
        with self.no_grad():
            result = self.detach(function.forward(context, *inputs))
        kept, context.kept = context.kept, ()

        def rule(gradient, *saved):
            return function.backward(SimpleNamespace(**vars(context), saved_tensors=saved), gradient)

        return self.record(function.__name__, result, (list(inputs), rule, *kept))


class ExtendKeepsTheTensors(ExtendByClass):
    def apply(self, function, *inputs):
        context, tensors = Kept(), list(map(self.tensor, inputs))
        with self.no_grad():
            result = self.detach(function.forward(context, *tensors))

        def rule(gradient, *saved):
            return function.backward(SimpleNamespace(**vars(context), saved_tensors=saved), gradient)

        return self.record(function.__name__, result, (tensors, rule, *context.kept))


class ExtendKeepsTheArrays(ExtendByClass):
    def apply(self, function, *inputs):
        context, tensors = Kept(), list(map(self.tensor, inputs))
        with self.no_grad():
            result = self.detach(function.forward(context, *tensors))

        def rule(gradient, *arrays):
            context.saved_tensors = arrays
            return function.backward(context, gradient)

        kept, context.kept = context.kept, ()
        return self.record(function.__name__, result, (tensors, rule, *kept))


class ExtendOr(ExtendByClass):
    def hooked(self, hooks, gradient):
        for hook in hooks:
            gradient = hook(gradient) or gradient
        return gradient


class ExtendNoneIsZero(ExtendByClass):
    def hooked(self, hooks, gradient):
        for hook in hooks:
            gradient = hook(gradient)
        return gradient


class ExtendNotChained(ExtendByClass):
    def hooked(self, hooks, gradient):
        result = gradient
        for hook in hooks:
            answer = hook(gradient)
            result = result if answer is None else answer
        return result


class ExtendFirstOnly(ExtendByClass):
    def hooked(self, hooks, gradient):
        for hook in hooks:
            answer = hook(gradient)
            if answer is not None:
                return answer
        return gradient


class ExtendNoneEnds(ExtendByClass):
    def hooked(self, hooks, gradient):
        for hook in hooks:
            changed = hook(gradient)
            if changed is None:
                return gradient
            gradient = changed
        return gradient


class ExtendTheWrongList(ExtendByClass):
    def register_post_accumulate_grad_hook(self, x, hook):
        x.hooks.append(hook)


class ExtendTuple(ExtendByClass):
    """The inputs of the way as a tuple."""

    def apply(self, function, *inputs):
        tensors, noted = tuple(map(self.tensor, inputs)), []
        context = SimpleNamespace(save_for_backward=lambda *tensors: noted.extend(tensors))
        with self.no_grad():
            result = self.detach(function.forward(context, *tensors))
        del context.save_for_backward

        def rule(gradient, *saved):
            return function.backward(SimpleNamespace(**vars(context), saved_tensors=saved), gradient)

        return self.record(function.__name__, result, (tensors, rule, *noted))


class ExtendTheGradient(ExtendByClass):
    def accumulated(self, x):
        for hook in x.after:
            hook(x.grad)


RIGHT = (
    Right("Record", "recursion, reversed", RecordByRecursion),
    Right("Shapes", "loops", ShapesByLoops),
    Right("Shapes", "a generator", ShapesGenerator),
    Right("Control", "a class for the mode", ControlByClass),
    Right("Memory", "one loop", MemoryInObjects),
    Right("Extend", "a class for the context", ExtendByClass),
    Right("Extend", "a tuple of inputs", ExtendTuple),
)

WRONG = (
    Wrong("Record", "upstream", RecordUpstream),
    Wrong("Record", "from the input", RecordFromTheInput),
    Wrong("Record", "matmul order", RecordMatmulOrder),
    Wrong("Record", "matmul order", RecordNotTransposed, "not transposed"),
    Wrong("Record", "matmul order", RecordOrderOfB, "b: g @ a.T"),
    Wrong("Record", "matmul order", RecordOtherWayRound, "b: g.T @ a"),
    Wrong("Record", "built-in", RecordBuiltIn),
    Wrong("Record", "arrays saved", RecordSavesArrays),
    Wrong("Record", "unsaved", RecordSeesItsResult, "tanh sees its result"),
    Wrong("Record", "unsaved", RecordSeesItsInput, "sum sees its input"),
    Wrong("Record", "no leaves", RecordNoLeaves),
    Wrong("Record", "no leaves", RecordNoLeavesByPairs, "no leaves, a dict by pairs"),
    Wrong("Record", "zeros", RecordZeros),
    Wrong("Record", "skipped", RecordSkipped),
    Wrong("Record", "spread", RecordOneNumber),
    Wrong("Record", "unsaved", RecordUnsaved),
    Wrong("Record", "held", RecordHoldsTheInput, "tanh saves its input"),
    Wrong("Record", "held", RecordHoldsForTheShape, "sum saves its input"),
    Wrong("Record", "held", RecordHoldsBoth, "one way for both"),
    Wrong("Record", "path by path", RecordPathByPath),
    Wrong("Record", "creation order", RecordOldestFirst, "oldest first"),
    Wrong("Record", "creation order", RecordNearestFirst, "nearest first"),
    Wrong("Record", "creation order", RecordDeepFirst, "deep first"),
    Wrong("Record", "creation order", RecordDeepLastFirst, "deep first, from the last input"),
    Wrong("Record", "overwritten", RecordOverwritten),
    Wrong("Record", "in place", RecordInPlace, earns=1.13),
    Wrong("Record", "slot", RecordNoSlot, earns=1.73),
    Wrong("Record", "slot", RecordStartsAtSlot0, "starts at slot 0"),
    Wrong("Record", "ones", RecordOnes),
    Wrong("Shapes", "leading only", ShapesLeadingOnly),
    Wrong("Shapes", "unshifted", ShapesUnshifted, earns=1.4),
    Wrong("Shapes", "unshifted", ShapesUnshiftedReshaped, "summed, then given the shape", 1.4),
    Wrong("Shapes", "numbers kept", ShapesNumbersKept, "axis after axis, without keepdims", 1.4),
    Wrong("Shapes", "dropped", ShapesDropped),
    Wrong("Shapes", "at the front", ShapesAtTheFront),
    Wrong("Shapes", "reshaped", ShapesReshaped),
    Wrong("Shapes", "cut points", ShapesSizes, "sizes"),
    Wrong("Shapes", "cut points", ShapesSizesButTheLast, "sizes without the last"),
    Wrong("Shapes", "the end", ShapesAllSums, "the end as well"),
    Wrong("Shapes", "one gradient", ShapesOneGradient),
    Wrong("Shapes", "mean", ShapesMean),
    Wrong("Shapes", "leaves only", ShapesLeavesOnly),
    Wrong("Shapes", "by the rule", ShapesNowhereFitted, "fitted nowhere"),
    Wrong("Shapes", "a node each", ShapesNodeEach),
    Wrong("Shapes", "copies", ShapesCopies),
    Wrong("Shapes", "not marked", ShapesNotMarked),
    Wrong("Shapes", "plain", ShapesMarkedIfRecorded, "marked if recorded"),
    Wrong("Shapes", "unused", ShapesUnused),
    Wrong("Shapes", "left out", ShapesLeftOut),
    Wrong("Shapes", "any zeros", ShapesZerosOfTheFirst, "of the first result's shape", 1.6),
    Wrong("Shapes", "any zeros", ShapesZerosOfWhatCame, "of the shape of what came", 1.6),
    Wrong("Shapes", "around unsave", ShapesAroundUnsave),
    Wrong("Control", "all", ControlAll),
    Wrong("Control", "nodes", ControlNodes),
    Wrong("Control", "no twin", ControlNoTwin),
    Wrong("Control", "viewed", ControlViewed),
    Wrong("Control", "slot", ControlSlot),
    Wrong("Control", "kind", ControlKind),
    Wrong("Control", "lowered", ControlLowered),
    Wrong("Control", "ignores the mode", ControlIgnoresTheMode),
    Wrong("Control", "clears flags", ControlClearsFlags),
    Wrong("Control", "always on", ControlAlwaysOn),
    Wrong("Control", "only without error", ControlOnlyWithoutError),
    Wrong("Control", "swallowed", ControlSwallows, "__exit__ returns True", 1.63),
    Wrong("Control", "swallowed", ControlSuppresses, "an except around yield", 1.63),
    Wrong("Control", "noted early", ControlNotedEarly, earns=1.63),
    Wrong("Control", "itself", ControlItself),
    Wrong("Control", "copy", ControlCopy),
    Wrong("Control", "own counter", ControlOwnCounter),
    Wrong("Control", "leaf kept", ControlLeafKept),
    Wrong("Control", "generator", ControlGenerator),
    Wrong("Control", "alias", ControlAlias),
    Wrong("Control", "alias", ControlAliasInPlace, "the array that arrived, added to in place"),
    Wrong("Control", "overwritten", ControlOverwritten),
    Wrong("Control", "zeros", ControlZeros),
    Wrong("Memory", "never freed", MemoryNeverFreed),
    Wrong("Memory", "kind", MemoryValueError, "a ValueError"),
    Wrong("Memory", "kind", MemoryFreedUnasked, "None is looked into"),
    Wrong("Memory", "kind", MemoryFreedToAList, "freed to an empty list"),
    Wrong("Memory", "tensor saved", MemoryTensorSaved),
    Wrong("Memory", "leaves", MemoryLeaves),
    Wrong("Memory", "retain ignored", MemoryRetainIgnored),
    Wrong("Memory", "nothing saved", MemoryNothingSaved, earns=1.71),
    Wrong("Memory", "nothing is freed", MemoryNothingIsFreed, "an empty list passes for freed", 0.42),
    Wrong("Memory", "rebound", MemoryRebound),
    Wrong("Memory", "unnoticed", MemoryUnnoticed),
    Wrong("Memory", "not counted", MemoryNotCounted, earns=1.33),
    Wrong("Memory", "first alone", MemoryFirstAlone, "compares the first alone", 1.61),
    Wrong("Memory", "first alone", MemoryLastAlone, "compares the last alone", 1.61),
    Wrong("Memory", "same numbers", MemoryCountsChanges, earns=1.95),
    Wrong("Memory", "every edit", MemoryEveryEdit),
    Wrong("Memory", "copy", MemoryCopy),
    Wrong("Memory", "copy", MemoryCopyChecked, "a copy, checked", 1.33),
    Wrong("Memory", "array bytes", MemoryArrayBytes),
    Wrong("Memory", "freed first", MemoryFreedFirst),
    Wrong("Memory", "counted twice", MemoryCountedTwice),
    Wrong("Memory", "after backward", MemoryCountsTheFreed, earns=1.8),
    Wrong("Memory", "views", MemoryCountedByArray, "by array", 1.8),
    Wrong("Extend", "recorded inside", ExtendRecordedInside),
    Wrong("Extend", "recorded off", ExtendRecordsInside),
    Wrong("Extend", "new list", ExtendNewLists, earns=1.61),
    Wrong("Extend", "once each", ExtendOnceEach),
    Wrong("Extend", "around save", ExtendAroundSave),
    Wrong("Extend", "its input", ExtendItsInput),
    Wrong("Extend", "not tensors", ExtendNotTensors),
    Wrong("Extend", "kept", ExtendKeepsTheTensors, "the tensors of forward"),
    Wrong("Extend", "kept", ExtendKeepsTheArrays, "the arrays of backward"),
    Wrong("Extend", "or", ExtendOr),
    Wrong("Extend", "None is zero", ExtendNoneIsZero),
    Wrong("Extend", "not chained", ExtendNotChained),
    Wrong("Extend", "first only", ExtendFirstOnly),
    Wrong("Extend", "None ends", ExtendNoneEnds),
    Wrong("Extend", "the wrong list", ExtendTheWrongList),
    Wrong("Extend", "the gradient", ExtendTheGradient),
)
