"""Stops compiled code from running where it could not be seen (``refuse_compiled_code``).

Under a dispatch mode a function made by ``torch.compile`` either runs eagerly, and stays eager ever after, or runs its
own kernels, whose buffers no mode sees. Both would give a wrong number, so a tracker refuses it.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from course_utils.base.errors import explain
from course_utils.base.torch_private import dispatch_module, get_dispatch_modes, set_guard_complete_hook

COMPILED_CODE_MESSAGE = explain(
    "Code made by torch.compile was called inside a MemoryTracker.",
    "eager code.",
    "Compiled code takes its memory without dispatching operations, so the count would be wrong.",
    'MemoryTracker(engine="allocator"), which asks the allocator; or call the function that is not compiled.',
)


def _ask_modes_before_compiling() -> None:
    """Makes a PyTorch before 2.11 ask the modes on the stack, as later ones do; its flag says nothing of trackers."""
    asked_before = dispatch_module.is_in_any_mode_without_ignore_compile_internals

    def is_in_any_mode_without_ignore_compile_internals() -> bool:
        for mode in get_dispatch_modes():
            mode.ignore_compile_internals()
        return asked_before()

    # The compiler has its own reference, which it takes when it is first loaded.
    for module in (dispatch_module, sys.modules.get("torch._dynamo.convert_frame")):
        if module is not None:
            vars(module)[asked_before.__name__] = is_in_any_mode_without_ignore_compile_internals


if not hasattr(dispatch_module, "any_torch_dispatch_mode_on_stack"):
    _ask_modes_before_compiling()


# How many blocks watch: the hook is one for the process, so the last block to end has to take it away.
_WATCH = SimpleNamespace(lock=threading.Lock(), blocks=0)


@contextmanager
def refuse_compiled_code(compiled_code_found: Callable[[], bool]) -> Iterator[None]:
    """Watches this process for compiled code about to run, while the block lasts.

    ``torch.compile`` evaluates its guards before it re-uses compiled code, and calls a hook then. The hook must not
    raise (that ends the process), but it may deny the match: then the code would be compiled again, and before that
    ``ignore_compile_internals`` of each mode on the stack is asked, which may raise.

    Args:
        compiled_code_found: called in the thread that is about to run compiled code; tells whether a tracker watches
            that thread. The same function for every block: the first one's serves all.
    """
    set_hook: Any = set_guard_complete_hook

    def guards_match(matched: bool) -> bool:
        return matched and not compiled_code_found()

    with _WATCH.lock:
        _WATCH.blocks += 1
        if _WATCH.blocks == 1:
            before = set_hook(guards_match)
            if before is not None:  # the collective guards of distributed training need the hook themselves
                set_hook(before)
    try:
        yield
    finally:
        with _WATCH.lock:
            _WATCH.blocks -= 1
            if _WATCH.blocks == 0:
                now = set_hook(None)
                if now is not None and now.__qualname__ != guards_match.__qualname__:
                    set_hook(now)
