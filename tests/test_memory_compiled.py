"""Compiled code under a tracker: it runs uncompiled, is counted, and is compiled again afterwards."""

import threading

import pytest
import torch

from course_utils.memory import MemoryTracker


def gelu_of_double(x):
    return torch.nn.functional.gelu(x * 2).sum()


@pytest.fixture
def compiled():
    yield torch.compile(gelu_of_double, backend="aot_eager")
    torch._dynamo.reset()


def is_compiled(function, x):
    return type(function(x).grad_fn).__name__ == "CompiledFunctionBackward"


@pytest.mark.parametrize("first", [True, False])
def test_compiled_code_counts_as_if_it_were_not(compiled, first):
    x = torch.ones(1000, requires_grad=True)
    if first:
        assert is_compiled(compiled, x)
    with MemoryTracker(x) as plain:
        loss = gelu_of_double(x)
    with MemoryTracker(x), MemoryTracker(x) as mem:
        loss = compiled(x)
    assert (mem.current, mem.peak) == (plain.current, plain.peak) == (4004, 8004)
    assert is_compiled(compiled, x)
    del loss


def test_a_gradient_of_a_compiled_backward_is_counted(compiled):
    x = torch.ones(1000, requires_grad=True)
    loss = compiled(x)
    with MemoryTracker(x) as mem, mem.phase("backward"):
        loss.backward()
    assert (mem.current, mem.report().categories["gradients"], mem.phases[0].end) == (4000, 4000, 4000)


def test_a_tracker_that_nobody_leaves_or_another_thread_leaves_nothing_set():
    def leave():
        with pytest.raises(ValueError, match="begins and ends in one thread"):
            mem.__exit__(None, None, None)

    for work in (lambda: MemoryTracker().__enter__(), leave):
        mem = MemoryTracker().__enter__()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        mem.__exit__(None, None, None)
        assert torch._dynamo.eval_frame._stance.stance == "default"
        assert torch._C._len_torch_dispatch_stack() == 0
