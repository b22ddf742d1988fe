"""Runs a drill's program as it is shown, with code of its own, and reads the answers off it (``observe``).

Shares nothing with the package: what is asked is taken from the question, and where an answer has to be looked for
while the program runs, marks are put into its text.
"""

import contextlib
import gc
import re
import threading
import traceback
import warnings

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F


def observe(topic, lines, question):
    """The answer to one question by running the lines; backward alone may fail."""
    look = {
        "edits": _edit,
        "scale": _scale,
        "in_dims": _in_dims,
        "gates": _gate,
        "hooks": _hook,
        "functions": _function,
        "leaves": _leaf,
    }
    return in_fresh_thread(lambda: look.get(topic, _flag)(list(lines), question.key, question.asks))


def in_fresh_thread(function):
    """The function's result, computed where grad mode is on; its exception is raised here."""
    box = []

    def work():
        try:
            box.append((function(), None))
        except Exception as error:
            box.append((None, error))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    result, error = box[0]
    if error is not None:
        raise error
    return result


def _run(lines, **more):
    space = {"torch": torch, "nn": nn, "F": F, "Thread": threading.Thread, **more}
    torch.manual_seed(0)
    try:
        exec(compile("\n".join(lines), "<drill>", "exec"), space)
        space["error_"] = None
    except RuntimeError as error:
        last = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<drill>"][-1]
        if not lines[last - 1].rstrip().endswith("backward()"):  # there may be nothing left to go backward through
            raise
        space["error_"] = error
    return space


def _inserted(lines, marks):
    """The lines with others put before those of these numbers, counted from 1."""
    return [text for number, line in enumerate([*lines, ""], 1) for text in (*marks.get(number, ()), line)]


def _flag(lines, key, asks):
    value = _run(lines)[key]
    return value if isinstance(value, bool) else value.requires_grad


def _leaf(lines, key, asks):
    name, _, grad = key.partition(".")
    value = _run(lines)[name]
    return value.grad is not None if grad else value.is_leaf


def _scale(lines, key, asks):
    space = _run([line.replace("DIVISOR", key) for line in lines])
    left = space["model"].weight.grad
    space["model"].zero_grad()
    space["whole"].backward()
    return torch.allclose(left, space["model"].weight.grad, rtol=1e-3, atol=1e-6)


def _in_dims(lines, key, asks):
    with contextlib.suppress(RuntimeError, ValueError, IndexError, TypeError):
        space = _run([line.replace("IN_DIMS", key) for line in lines])
        if space["once"].shape == space["loop"].shape:
            return bool((space["once"] - space["loop"]).abs().max() < 1e-4)
    return False


def _gate(lines, key, asks):
    name, calls = key[0], []
    marks = {3: [f"{name}.register_forward_hook(lambda *_: calls_.append(1))"]}
    if number := re.search(r"line (\d+)", asks):
        what = "calls_.clear()" if key.endswith("runs") else f"before_ = {name}.weight.detach().clone()"
        marks[int(number[1])] = [*marks.get(int(number[1]), []), what]
    space = _run(_inserted(lines, marks), calls_=calls)
    weight = space[name].weight
    if key.endswith("runs"):
        return bool(calls)
    if key.endswith("moves"):
        return bool((weight != space["before_"]).any())
    return "none" if weight.grad is None else "values" if bool((weight.grad != 0).any()) else "zeros"


def _hook(lines, key, asks):
    seen = _run(lines)["seen"]
    return f"{float(seen[key]) + 0.0:g}" if key in seen else "nothing"


def _function(lines, key, asks):
    """Whether anything holds the tensor's memory once its name and all but the last one are gone."""
    last = [match[1] for match in map(re.compile(r"(\w) = ").match, lines) if match][-1]
    was = gc.isenabled()
    gc.disable()
    try:
        space = _run(lines)
        space.pop("error_")
        pointer = StorageWeakRef(space[key].untyped_storage())
        for name in [name for name, value in space.items() if isinstance(value, torch.Tensor) and name != last]:
            del space[name]
        return not pointer.expired()
    finally:
        if was:
            gc.enable()


def _edit(lines, key, asks):
    """Looks at the tensor before and after the lines that the question names, at the gradient right after the loss."""
    name, _, what = key.partition(" ")
    seen = {}

    def reference(space):
        seen["leaves"] = [t for t in space.values() if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad]
        with contextlib.suppress(RuntimeError):
            seen["right"] = torch.autograd.grad(space["loss"], seen["leaves"], retain_graph=True, allow_unused=True)

    def mark(tensor):
        return tensor.detach().clone(), tensor._version

    if what:
        numbers = sorted(int(number) for number in re.findall(r"\d+", asks))
        marks = {numbers[0]: [f"before_ = mark_({name})"], numbers[-1] + 1: [f"after_ = mark_({name})"]}
        space = _run(_inserted(lines, marks), mark_=mark)
        (before, counted), (after, counts) = space["before_"], space["after_"]
        return counts > counted if what == "counted" else not torch.equal(before, after)
    loss = next(number for number, line in enumerate(lines, 1) if line.startswith("loss = "))
    space = _run(_inserted(lines, {loss + 1: ["reference_(globals())"]}), reference_=reference)
    if space["error_"] is not None:
        return "error"
    grads = [leaf.grad for leaf in seen["leaves"]]
    same = "right" in seen and all(
        (one is None) == (other is None) and (one is None or torch.equal(one, other))
        for one, other in zip(grads, seen["right"], strict=True)
    )
    return "right gradient" if same else "wrong gradient"
