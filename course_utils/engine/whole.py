"""An engine of autograd in NumPy: what lesson 12 builds, whole. Its gradients are arrays."""

from collections import namedtuple
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace

import numpy as np

numbers = count()  # of the nodes, in the order in which they are made
Target = namedtuple("Target", "node slot shape")  # where a gradient goes: to which result of a node, in which shape


class Memory:
    """What views and detached tensors share: the bytes, how often they were written to, and whether they have views."""

    def __init__(self, nbytes):
        self.nbytes, self.version, self.viewed = nbytes, 0, False


class Tensor:
    """An array, and what the engine has to know about it. ``x.exp()`` asks the engine for ``engine.exp(x)``."""

    def __init__(self, engine, data, requires_grad=False, memory=None):
        self.engine, self.data, self.requires_grad = engine, np.asarray(data, float), requires_grad
        self.memory = memory or Memory(self.data.nbytes)
        self.node, self.slot, self.grad = None, 0, None  # the node that made it, and as which of its results
        self.hooks, self.after = [], []  # for its gradient on the way, and for a leaf whose .grad has been filled

    shape = property(lambda self: self.data.shape)
    is_leaf = property(lambda self: self.node is None)
    __add__ = __radd__ = lambda self, other: self.engine.add(self, self.engine.tensor(other))
    __mul__ = __rmul__ = lambda self, other: self.engine.mul(self, self.engine.tensor(other))
    __matmul__ = lambda self, other: self.engine.matmul(self, other)
    __sub__ = lambda self, other: self + other * -1.0
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
    """An operation that was recorded; or the end at a leaf: a node without ways, which keeps the gradient for it."""

    def __init__(self, name, results, ways=()):
        self.name, self.ways, self.number = name, ways, next(numbers)
        self.shapes, self.hooks = [x.shape for x in results], [x.hooks for x in results]
        self.keeps = [None if ways else x for x in results]  # whose .grad is filled: a leaf's, at first
        self.inputs = [target.node for way in ways for target in way.targets if target]


class Way:
    """The way back to an input, or to several: the rule, what was saved for it, and for each its target or None."""

    def __init__(self, rule, saved, targets):
        self.rule, self.saved, self.targets = rule, saved, targets

    def back(self, gradients, saved):
        """Calls the rule; gives pairs of a target and the gradient that goes there."""
        found = self.rule(*gradients, *saved)
        found = found if isinstance(found, (list, tuple)) else [found]
        return [(target, g) for target, g in zip(self.targets, found, strict=True) if target and g is not None]


class Function:
    """One's own operation: static ``forward(context, *tensors)``, and ``backward(context, gradient)`` in arrays."""

    apply = classmethod(lambda cls, *inputs: inputs[0].engine.apply(cls, *inputs))


class Engine:
    """Given is what calls the rest. Then come the five exercises."""

    enabled, retain_graph = True, False  # the grad mode, and what the running backward was called with

    def tensor(self, data, requires_grad=False):
        return data if isinstance(data, Tensor) else Tensor(self, data, requires_grad)

    def target(self, x):
        """Where the gradient of x goes. A leaf gets its node when it is first used."""
        if x.is_leaf and "end" not in vars(x):
            x.end = Node("leaf", [x])
        return Target(x.end if x.is_leaf else x.node, x.slot, x.shape) if x.requires_grad else None

    def record(self, name, result, *ways):
        """Gives a result its node. A way is (input, rule, *saved); lists stand for several inputs, several results."""
        several = lambda given: given if isinstance(given, (list, tuple)) else [given]
        results, ways = several(result), [(several(inputs), rule, saved) for inputs, rule, *saved in ways]
        if self.records([x for inputs, *_ in ways for x in inputs]):
            wanted = [way for way in ways if any(x.requires_grad for x in way[0])]
            found = [Way(rule, [*map(self.save, saved)], [*map(self.target, inputs)]) for inputs, rule, saved in wanted]
            node = Node(name, results, found)
            for slot, made in enumerate(results):
                made.node, made.slot, made.requires_grad = node, slot, True
        return result

    def run(self, node, gradients):
        """Takes the gradients of a node's results through hooks, to who keeps them, and back along the node's ways."""
        for slot, gradient in enumerate(gradients):
            if gradient is not None:
                gradients[slot] = self.hooked(node.hooks[slot], gradient)
                if node.keeps[slot]:
                    self.accumulate(node.keeps[slot], gradients[slot])
                    self.accumulated(node.keeps[slot])
        return self.through(node, gradients)

    def add(self, a, b):
        return self.record("add", self.tensor(a.data + b.data), (a, lambda g: g), (b, lambda g: g))

    def mul(self, a, b):
        made = self.tensor(a.data * b.data)
        return self.record("mul", made, (a, lambda g, b: g * b, b), (b, lambda g, a: g * a, a))

    def exp(self, x):
        made = self.tensor(np.exp(x.data))
        return self.record("exp", made, (x, lambda g, made: g * made, made))

    add_ = lambda self, x, other: self.in_place(x, self.add, self.tensor(other))
    mul_ = lambda self, x, other: self.in_place(x, self.mul, self.tensor(other))

    def in_place(self, x, operation, other):
        """x takes over the values and the history of ``operation(x, other)``."""
        if self.enabled and x.is_leaf and x.requires_grad:
            raise RuntimeError("a leaf that requires grad is edited in place while operations are recorded")
        before = Tensor(self, x.data.copy(), x.requires_grad)
        before.node, before.slot = x.node, x.slot
        new = operation(before, other)
        if new.node and x.memory.viewed:
            raise NotImplementedError("this engine records no edit of a view, nor of what has views")
        self.write(x, new.data)
        if new.node:
            x.node, x.slot, x.requires_grad, x.hooks = new.node, 0, True, new.hooks
        return x

    # Exercise 1, Record: more operations, and the walk from a result to the leaves.

    def matmul(self, a, b):
        made = self.tensor(a.data @ b.data)
        return self.record("matmul", made, (a, lambda g, b: g @ b.T, b), (b, lambda g, a: a.T @ g, a))

    def tanh(self, x):
        made = self.tensor(np.tanh(x.data))
        return self.record("tanh", made, (x, lambda g, made: g * (1 - made * made), made))

    def sum(self, x):
        return self.record("sum", self.tensor(x.data.sum()), (x, lambda g, shape=x.shape: np.full(shape, g)))

    def walk(self, node):
        """The nodes behind one, each after all that was made of its results: a node is younger than its inputs."""
        found = [node]
        for each in found:  # which grows meanwhile
            found += [other for other in dict.fromkeys(each.inputs) if other not in found]
        return sorted(found, key=lambda each: each.number, reverse=True)

    def backward(self, result, gradient):
        start = self.target(result)
        arrived = {start.node: {start.slot: gradient}}
        for node in self.walk(start.node):
            gradients = arrived.pop(node, {})
            for target, g in self.run(node, [gradients.get(slot) for slot in range(len(node.shapes))]):
                slots = arrived.setdefault(target.node, {})
                slots[target.slot] = slots[target.slot] + g if target.slot in slots else g

    # Exercise 2, Shapes: what was broadcast is summed, at every edge; an operation may have several results.

    def fit(self, gradient, shape):
        added = gradient.ndim - len(shape)
        axes = (*range(added), *(added + i for i, size in enumerate(shape) if size == 1))
        return gradient.sum(axis=axes).reshape(shape) if axes else gradient

    def through(self, node, gradients):
        given = [np.zeros(shape) if g is None else g for g, shape in zip(gradients, node.shapes, strict=True)]
        return [(to, self.fit(g, to.shape)) for way in node.ways for to, g in way.back(given, self.unsave(way))]

    def split(self, x, sizes):
        x.memory.viewed = True
        pieces = [Tensor(self, part, memory=x.memory) for part in np.split(x.data, np.cumsum(sizes)[:-1])]
        return self.record("split", pieces, (x, lambda *gradients: np.concatenate(gradients)))

    # Exercise 3, Control: who is recorded, and who keeps a gradient.

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
            x.node.keeps[x.slot] = x

    # Exercise 4, Memory: what is saved, checked and freed.

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

    # Exercise 5, Extend: operations and hooks of others.

    def apply(self, function, *inputs):
        inputs, to_save = [self.tensor(x) for x in inputs], []
        context = SimpleNamespace(save_for_backward=lambda *tensors: to_save.extend(tensors))
        with self.no_grad():
            result = self.detach(function.forward(context, *inputs))
        del context.save_for_backward  # it holds the tensors, which the graph is to hold alone, and to free
        rule = lambda g, *saved: function.backward(SimpleNamespace(**vars(context), saved_tensors=saved), g)
        return self.record(function.__name__, result, (inputs, rule, *to_save))

    register_hook = lambda self, x, hook: x.hooks.append(hook)
    register_post_accumulate_grad_hook = lambda self, x, hook: x.after.append(hook)

    def hooked(self, hooks, gradient):
        for hook in hooks:
            changed = hook(gradient)
            gradient = gradient if changed is None else changed
        return gradient

    def accumulated(self, x):
        for hook in x.after:
            hook(x)
