"""An engine of autograd in NumPy: what lesson 12 builds, whole. Its gradients are arrays."""

import weakref
from contextlib import contextmanager
from itertools import count

import numpy as np

numbers = count()  # of the nodes, in the order in which they are made


class Memory:
    """What a tensor shares with its detached twins: its bytes, and how often they were written to."""

    def __init__(self, nbytes):
        self.nbytes, self.version = nbytes, 0


class Tensor:
    """An array, and what the engine has to know about it. ``x.exp()`` asks the engine for ``engine.exp(x)``."""

    __array_ufunc__ = None  # so that np.ones(3) * x asks x, and np.tanh(x) is refused

    def __init__(self, engine, data, requires_grad=False, memory=None):
        self.engine, self.data, self.requires_grad = engine, np.asarray(data, float), requires_grad
        self.memory = memory or Memory(self.data.nbytes)
        self.node, self.grad, self.hooks = None, None, []
        self.end = lambda: None  # called, it gives a leaf's own node, if somebody holds one

    shape, ndim = property(lambda self: self.data.shape), property(lambda self: self.data.ndim)
    is_leaf = property(lambda self: self.node is None)
    T = property(lambda self: self.engine.transpose(self))
    __add__ = __radd__ = lambda self, other: self.engine.add(self, self.engine.tensor(other))
    __mul__ = __rmul__ = lambda self, other: self.engine.mul(self, self.engine.tensor(other))
    __neg__ = lambda self: self.engine.neg(self)
    __sub__ = lambda self, other: self + -self.engine.tensor(other)
    __rsub__ = lambda self, other: -self + other
    __truediv__ = lambda self, other: self.engine.div(self, self.engine.tensor(other))
    __rtruediv__ = lambda self, other: self.engine.tensor(other) / self
    __pow__ = lambda self, exponent: self.engine.pow(self, exponent)
    __matmul__ = lambda self, other: self.engine.matmul(self, self.engine.tensor(other))
    __rmatmul__ = lambda self, other: self.engine.tensor(other) @ self
    __gt__ = lambda self, number: self.data > number
    __repr__ = lambda self: f"Tensor({self.data.tolist()}{', requires_grad=True' * self.requires_grad})"

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: getattr(self.engine, name)(self, *args, **kwargs)

    def backward(self, gradient=None, retain_graph=False):
        if not self.requires_grad or (gradient is None and self.data.size != 1):
            raise RuntimeError("backward starts at a single number that requires grad, or with a gradient")
        self.engine.retain_graph = retain_graph
        with self.engine.no_grad():
            self.engine.backward(self, np.ones(self.shape) if gradient is None else gradient)


class Node:
    """An operation that was recorded, with its ways back; or a leaf's end node, which has none."""

    def __init__(self, name, result, ways=()):
        self.name, self.ways, self.number = name, ways, next(numbers)
        self.shape, self.hooks = result.shape, result.hooks
        self.keeps = lambda: None  # called, it gives the tensor whose .grad is filled here

    inputs = property(lambda self: [way.node for way in self.ways])


class Way:
    """A way back to one input: the node that its gradient goes to, the rule, and what was saved for the rule."""

    def __init__(self, node, rule, saved):
        self.node, self.rule, self.saved = node, rule, saved


class Engine:
    """Given is what calls the rest. Then come the five exercises."""

    enabled, retain_graph = True, False  # the grad mode, and what the running backward was called with

    def tensor(self, data, requires_grad=False):
        return data if isinstance(data, Tensor) else Tensor(self, data, requires_grad)

    def end(self, x):
        """The node that the gradient of x goes to. A leaf's holds the leaf, and is held by graphs alone."""
        node = x.node or x.end()
        if node is None:
            node = Node("leaf", x)
            node.keeps, x.end = lambda: x, weakref.ref(node)
        return node

    def visit(self, node, gradient):
        """Takes the gradient through the hooks of a node, and to the tensor that keeps it; returns what goes on."""
        for hook in node.hooks:
            changed = hook(gradient)
            gradient = gradient if changed is None else changed
        if (x := node.keeps()) is not None:
            self.accumulate(x, gradient)
        return gradient

    register_hook = lambda self, x, hook: x.hooks.append(hook)

    def add(self, a, b):
        return self.record("add", self.tensor(a.data + b.data), (a, lambda g: g), (b, lambda g: g))

    def mul(self, a, b):
        made = self.tensor(a.data * b.data)
        return self.record("mul", made, (a, lambda g, b: g * b, b), (b, lambda g, a: g * a, a))

    def exp(self, x):
        made = self.tensor(np.exp(x.data))
        return self.record("exp", made, (x, lambda g, y: g * y, made))

    def log(self, x):
        return self.record("log", self.tensor(np.log(x.data)), (x, lambda g, x: g / x, x))

    def neg(self, x):
        return self.record("neg", self.tensor(-x.data), (x, lambda g: -g))

    def div(self, a, b):
        made = self.tensor(a.data / b.data)
        return self.record("div", made, (a, lambda g, b: g / b, b), (b, lambda g, a, b: -g * a / (b * b), a, b))

    def pow(self, x, n):
        if isinstance(n, Tensor):
            raise TypeError("the exponent is a number: x ** 2")
        return self.record("pow", self.tensor(x.data**n), (x, lambda g, x: g * (n * x ** (n - 1) if n else 0.0), x))

    def relu(self, x):
        made = self.tensor(np.maximum(x.data, 0))
        return self.record("relu", made, (x, lambda g, y: g * (y > 0), made))

    def transpose(self, x):
        return self.record("transpose", self.tensor(x.data.T.copy()), (x, lambda g: g.T))

    add_ = lambda self, x, other: self.in_place(x, self.add, self.tensor(other))
    mul_ = lambda self, x, other: self.in_place(x, self.mul, self.tensor(other))

    def in_place(self, x, operation, other):
        """x takes over the values and the history of ``operation(x, other)``."""
        if self.enabled and x.is_leaf and x.requires_grad:
            raise RuntimeError("a leaf that requires grad is edited in place while operations are recorded")
        before = Tensor(self, x.data.copy(), x.requires_grad)
        before.node = x.node
        new = operation(before, other)
        self.write(x, new.data)
        if new.node:
            x.node, x.requires_grad, x.hooks = new.node, True, new.hooks
        return x

    # Exercise 1, Extend: more operations, and a judge of one's own.

    def matmul(self, a, b):
        made = self.tensor(a.data @ b.data)
        return self.record("matmul", made, (a, lambda g, b: g @ b.T, b), (b, lambda g, a: a.T @ g, a))

    def tanh(self, x):
        made = self.tensor(np.tanh(x.data))
        return self.record("tanh", made, (x, lambda g, y: g * (1 - y * y), made))

    def sum(self, x):
        return self.record("sum", self.tensor(x.data.sum()), (x, lambda g, shape=x.shape: g * np.ones(shape)))

    def small_step(self, function, x):
        slopes = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            step = np.zeros(x.shape)
            step[place] = 1e-6
            slopes[place] = (function(x + step) - function(x - step)) / 2e-6
        return slopes

    # Exercise 2, Record: the recording, and the walk from a result to the leaves.

    def record(self, name, result, *ways):
        if self.records([x for x, *_ in ways]):
            kept = [Way(self.end(x), rule, [*map(self.save, saved)]) for x, rule, *saved in ways if x.requires_grad]
            result.node, result.requires_grad = Node(name, result, kept), True
        return result

    def walk(self, node):
        """The nodes behind one, each after all that was made of its result: a node is younger than its inputs."""
        found, waiting = {node}, [node]
        while waiting:
            new = set(waiting.pop().inputs) - found
            found |= new
            waiting += new
        return sorted(found, key=lambda each: each.number, reverse=True)

    # Exercise 3, Shapes: backward, and what was broadcast is summed at every edge.

    def backward(self, result, gradient):
        arrived = {self.end(result): gradient}
        for node in self.walk(self.end(result)):
            gradient = self.visit(node, arrived.pop(node))
            for way in node.ways:
                part = self.fit(way.rule(gradient, *self.unsave(way)), way.node.shape)
                arrived[way.node] = arrived[way.node] + part if way.node in arrived else part

    def fit(self, gradient, shape):
        added = gradient.ndim - len(shape)
        axes = (*range(added), *(added + i for i, size in enumerate(shape) if size == 1))
        return gradient.sum(axis=axes).reshape(shape) if axes else gradient

    # Exercise 4, Control: who is recorded, and who keeps a gradient.

    def records(self, inputs):
        return self.enabled and any(x.requires_grad for x in inputs)

    @contextmanager
    def no_grad(self):
        before, self.enabled = self.enabled, False
        try:
            yield
        finally:
            self.enabled = before

    def detach(self, x):
        return Tensor(self, x.data, memory=x.memory)

    def accumulate(self, x, gradient):
        if x.requires_grad:
            x.grad = np.array(gradient) if x.grad is None else x.grad + gradient

    def retain_grad(self, x):
        if not x.requires_grad:
            raise RuntimeError("no gradient comes to a tensor that does not require grad")
        if not x.is_leaf:
            x.node.keeps = weakref.ref(x)

    # Exercise 5, Memory: what is saved, checked and freed.

    def save(self, x):
        return x.data, x.memory, x.memory.version

    def write(self, x, values):
        x.data[...] = values
        x.memory.version += 1

    def unsave(self, way):
        if way.saved is None:
            raise RuntimeError("backward comes here a second time: what was saved has been freed")
        if any(memory.version != version for _, memory, version in way.saved):
            raise RuntimeError("what was saved for backward has been edited in place since")
        arrays = [array for array, *_ in way.saved]
        if arrays and not self.retain_graph:
            way.saved = None
        return arrays

    def bytes_held(self, result):
        saved = [each for node in self.walk(result.node) for way in node.ways for each in way.saved or ()]
        return sum({id(memory): memory.nbytes for _, memory, _ in saved}.values())
