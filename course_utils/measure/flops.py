"""PyTorch's ``FlopCounterMode``, kept from loading the compiler at a process's first count, which takes seconds."""

from torch.utils.flop_counter import FlopCounterMode as FlopCounterMode

from course_utils.base.torch_private import flop_dispatch

# Its wrapper (since 2.11) asks the function for a version that the compiler leaves alone, and makes one where there is
# none. As long as nothing is compiled, the function itself does.
if counting := getattr(flop_dispatch, "__wrapped__", None):
    vars(counting)["__dynamo_disable"] = counting
