"""Right answers to the exercises of lesson 12, written otherwise than the course's own."""

# %%
import heapq
from collections import Counter, defaultdict
from contextlib import ExitStack


class NoGrad:
    def __init__(self, engine):
        self.engine = engine

    def __enter__(self):
        self.before = self.engine.enabled
        self.engine.enabled = False

    def __exit__(self, *error):
        self.engine.enabled = self.before

# %% Extend: NumPy's functions, and a step that is taken back
class Extend:
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

    def small_step(self, function, x):
        slopes = np.empty_like(x)
        for place, before in np.ndenumerate(x.copy()):
            x[place] = before + 1e-6
            above = function(x)
            x[place] = before - 1e-6
            slopes[place] = (above - function(x)) / 2e-6
            x[place] = before
        return slopes

# %% Extend: rules with names, and the steps as rows of a matrix
class Extend:
    def matmul(self, a, b):
        def for_a(g, b):
            return g @ b.T

        def for_b(g, a):
            return (g.T @ a).T

        return self.record("matmul", self.tensor(a.data @ b.data), (a, for_a, b), (b, for_b, a))

    def tanh(self, x):
        result = self.tensor(np.tanh(x.data))

        def rule(gradient, result):
            return gradient * (1 + result) * (1 - result)

        return self.record("tanh", result, (x, rule, result))

    def sum(self, x):
        return self.record("sum", self.tensor(x.data.sum()), (x, lambda g, shape=x.shape: np.full(shape, g)))

    def small_step(self, function, x):
        steps = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
        slopes = [(function(x + step) - function(x - step)) / 2e-6 for step in steps]
        return np.array(slopes).reshape(x.shape)

# %% Extend: the value of tanh from exponentials, and half the step
class Extend(Extend):
    def tanh(self, x):
        doubled = np.exp(-2 * np.abs(x.data))
        y = self.tensor(np.sign(x.data) * (1 - doubled) / (1 + doubled))
        return self.record("tanh", y, (x, lambda g, y: -g * (y * y - 1), y))

    def small_step(self, function, x):
        found, flat = [], x.reshape(-1)
        for place in range(flat.size):
            up, down = flat.copy(), flat.copy()
            up[place] += 5e-7
            down[place] -= 5e-7
            found.append((function(up.reshape(x.shape)) - function(down.reshape(x.shape))) / 1e-6)
        return np.reshape(found, x.shape)

# %% Extend: einsum
class Extend(Extend):
    def sum(self, x):
        zeros = np.zeros(x.shape)
        return self.record("sum", self.tensor(x.data.sum()), (x, lambda g: zeros + g))

    def matmul(self, a, b):
        made = self.tensor(np.einsum("ij,jk->ik", a.data, b.data))
        ways = [(a, lambda g, w: np.einsum("ik,jk->ij", g, w), b), (b, lambda g, x: np.einsum("ij,ik->jk", x, g), a)]
        return self.record("matmul", made, *ways)

# %% Record: recursion, inputs before users, then the other way round
class Record:
    def record(self, name, result, *ways):
        inputs = [way[0] for way in ways]
        if not self.records(inputs):
            return result
        kept = [Way(self.end(w[0]), w[1], [self.save(t) for t in w[2:]]) for w in ways if w[0].requires_grad]
        result.requires_grad, result.node = True, Node(name, result, kept)
        return result

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

# %% Record: users counted: a node is ready when all its users have been met
class Record(Record):
    def walk(self, node):
        users, waiting, seen = Counter(), [node], {node}
        while waiting:
            for before in waiting.pop().inputs:
                users[before] += 1
                if before not in seen:
                    seen.add(before)
                    waiting.append(before)
        order, ready = [], [node]
        while ready:
            order.append(ready.pop())
            for before in order[-1].inputs:
                users[before] -= 1
                if users[before] == 0:
                    ready.append(before)
        return order

# %% Record: a heap: the youngest node that waits comes next
class Record:
    def record(self, name, result, *ways):
        inputs, found = [], []
        for x, rule, *saved in ways:
            inputs.append(x)
            found.append((x, rule, saved))
        if self.records(inputs):
            kept = filter(lambda entry: entry[0].requires_grad, found)
            result.node = Node(
                name, result, [Way(self.end(x), rule, [*map(self.save, saved)]) for x, rule, saved in kept]
            )
            result.requires_grad = True
        return result

    def walk(self, node):
        waiting, seen, order = [(-node.number, node)], {node.number}, []
        while waiting:
            order.append(heapq.heappop(waiting)[1])
            for other in order[-1].inputs:
                if other.number not in seen:
                    seen.add(other.number)
                    heapq.heappush(waiting, (-other.number, other))
        return order

# %% Record: a dict by number, sorted
class Record(Record):
    def walk(self, node):
        nodes, new = {}, {node.number: node}
        while new:
            nodes |= new
            new = {i.number: i for each in new.values() for i in each.inputs if i.number not in nodes}
        return [nodes[number] for number in sorted(nodes)][::-1]

# %% Shapes: axis after axis, and a dict that is read with a default
class Shapes:
    def backward(self, result, gradient):
        arrived = {self.end(result): gradient}
        for node in self.walk(self.end(result)):
            gradient = self.visit(node, arrived[node])
            for way in node.ways:
                g = self.fit(way.rule(gradient, *self.unsave(way)), way.node.shape)
                arrived[way.node] = arrived.get(way.node, 0) + g

    def fit(self, gradient, shape):
        while gradient.ndim > len(shape):
            gradient = gradient.sum(axis=0)
        for axis, size in enumerate(shape):
            if size == 1 and gradient.shape[axis] != 1:
                gradient = gradient.sum(axis=axis, keepdims=True)
        return gradient

# %% Shapes: all axes in one sum; what arrives is listed, and added up at the visit
class Shapes:
    def backward(self, result, gradient):
        arrived = defaultdict(list)
        arrived[self.end(result)].append(gradient)
        for node in self.walk(self.end(result)):
            gradient = self.visit(node, sum(arrived.pop(node)))
            for way in node.ways:
                arrived[way.node].append(self.fit(way.rule(gradient, *self.unsave(way)), way.node.shape))

    def fit(self, gradient, shape):
        ones = (1,) * (gradient.ndim - len(shape))
        axes = tuple(np.flatnonzero(np.array(gradient.shape) != np.array(ones + shape, int)))
        return gradient.sum(axis=axes, keepdims=True).reshape(shape)

# %% Shapes: each node has an array of zeros, to which everything is added
class Shapes(Shapes):
    def backward(self, result, gradient):
        order = self.walk(self.end(result))
        arrived = {node: np.zeros(node.shape) for node in order}
        arrived[order[0]] += gradient
        for node in order:
            gradient = self.visit(node, arrived[node])
            for way in node.ways:
                arrived[way.node] += self.fit(way.rule(gradient, *self.unsave(way)), way.node.shape)

# %% Shapes: reduce
class Shapes(Shapes):
    def fit(self, gradient, shape):
        added = gradient.ndim - len(shape)
        ones = [added + axis for axis, size in enumerate(shape) if size == 1]
        return np.add.reduce(gradient, axis=(*range(added), *ones)).reshape(shape)

# %% Control: a class for the mode, and a detached twin by hand
class Control:
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
        if x.grad is None:
            x.grad = np.zeros(x.shape)
        x.grad += gradient

    def retain_grad(self, x):
        if not x.requires_grad:
            raise RuntimeError("it does not require grad")
        if x.node is not None:
            x.node.keeps = weakref.ref(x)

# %% Control: what puts the mode back is called by a stack
class Control(Control):
    @contextmanager
    def no_grad(self):
        with ExitStack() as stack:
            stack.callback(setattr, self, "enabled", self.enabled)
            self.enabled = False
            yield

    def accumulate(self, x, gradient):
        x.grad = gradient + (0 if x.grad is None else x.grad)

# %% Control: a function that asks a weak reference; a leaf is left at once
class Control(Control):
    def records(self, inputs):
        return bool(self.enabled and [x for x in inputs if x.requires_grad])

    def retain_grad(self, x):
        if x.is_leaf and x.requires_grad:
            return
        if x.is_leaf:
            raise RuntimeError(f"{x} does not require grad")
        reference = weakref.ref(x)
        x.node.keeps = lambda: reference()

# %% Control: a copy of the first gradient
class Control(Control):
    def detach(self, x):
        return Tensor(self, x.data, False, x.memory)

    def accumulate(self, x, gradient):
        before = x.grad
        x.grad = gradient.copy() if before is None else np.add(before, gradient)

# %% Memory: one loop, and the bytes by a set
class Memory:
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

# %% Memory: questions as functions of their own
class Memory(Memory):
    def is_edited(self, saved):
        return any(memory.version != version for _, memory, version in saved)

    def unsave(self, way):
        saved = way.saved
        if saved is None or self.is_edited(saved):
            raise RuntimeError("freed" if saved is None else "edited")
        way.saved = saved if self.retain_graph or not saved else None
        return [entry[0] for entry in saved]

    def write(self, x, values):
        x.memory.version += 1
        x.data[...] = np.broadcast_to(values, x.shape)

# %% Memory: memories by id
class Memory(Memory):
    def bytes_held(self, result):
        ways = [way for node in self.walk(result.node) for way in node.ways if way.saved]
        held = {id(memory): memory.nbytes for way in ways for _, memory, _ in way.saved}
        return sum(held.values())

    def save(self, x):
        return tuple([x.data, x.memory, x.memory.version])

# %% Memory: all is looked at before anything is raised
class Memory(Memory):
    def unsave(self, way):
        freed = way.saved is None
        edited = not freed and not all(memory.version == version for _, memory, version in way.saved)
        if freed or edited:
            raise RuntimeError("this graph cannot be gone through")
        arrays = [array for array, _, _ in way.saved]
        if not self.retain_graph:
            way.saved = None if arrays else []
        return arrays
