"""Compiled code under a tracker: refused, and unharmed."""

import pytest
import torch

from course_utils.memory import MemoryTracker
from course_utils.memory.compile_guard import COMPILED_CODE_MESSAGE


@pytest.fixture
def compiled():
    def gelu_of_double(x):
        return torch.nn.functional.gelu(x * 2).sum()

    yield torch.compile(gelu_of_double, backend="aot_eager")
    torch._dynamo.reset()


def is_compiled(function, x):
    return type(function(x).grad_fn).__name__ == "CompiledFunctionBackward"


def test_code_is_refused_before_and_after_its_first_run_and_stays_compiled(compiled):
    x = torch.ones(10, requires_grad=True)
    for _ in range(2):
        with pytest.raises(NotImplementedError) as caught, MemoryTracker(x):
            compiled(x)
        assert str(caught.value) == COMPILED_CODE_MESSAGE
        assert torch._C._len_torch_dispatch_stack() == 0
        assert is_compiled(compiled, x)


def test_nested_trackers_refuse_too_and_the_hook_goes_with_the_last(compiled):
    x = torch.ones(10, requires_grad=True)
    assert is_compiled(compiled, x)
    with MemoryTracker(x):
        with pytest.raises(NotImplementedError), MemoryTracker(x):
            compiled(x)
        with pytest.raises(NotImplementedError):
            compiled(x)
    hook = torch._C._dynamo.eval_frame.set_guard_complete_hook(None)
    assert hook is None


def test_compiled_module_is_refused():
    model = torch.compile(torch.nn.Linear(4, 4), backend="aot_eager")
    with pytest.raises(NotImplementedError), MemoryTracker(model):
        model(torch.ones(1, 4))
    torch._dynamo.reset()


def test_another_thread_may_run_compiled_code_meanwhile(compiled):
    import threading

    x = torch.ones(10, requires_grad=True)
    found = []
    with MemoryTracker():
        thread = threading.Thread(target=lambda: found.append(is_compiled(compiled, x)))
        thread.start()
        thread.join()
    assert found == [True]


def test_engine_allocator_takes_compiled_code(compiled):
    x = torch.ones(1000, requires_grad=True)
    compiled(x)
    with MemoryTracker(x, engine="allocator") as mem:
        loss = compiled(x)
    # Saved for backward is x * 2 or its input, as the compiler chose, and the result.
    assert mem.current in (4 + 4000, 4)
    del loss


def test_gradient_of_a_compiled_backward_is_counted(compiled):
    x = torch.ones(1000, requires_grad=True)
    loss = compiled(x)
    with MemoryTracker(x) as mem, mem.phase("backward"):
        loss.backward()
    assert (mem.current, mem.report().categories["gradients"]) == (4000, 4000)
    assert mem.phases[0].end == 4000
