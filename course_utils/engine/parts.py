"""The five parts of an engine that a learner writes (``PARTS``), put together with the course's (``assemble``)."""

from typing import Any

from course_utils.engine.whole import Engine

PARTS: dict[str, tuple[str, ...]] = {
    "Record": ("matmul", "tanh", "sum", "walk", "backward"),
    "Shapes": ("fit", "through", "split"),
    "Control": ("records", "no_grad", "detach", "accumulate", "retain_grad"),
    "Memory": ("save", "write", "unsave", "bytes_held"),
    "Extend": ("apply", "register_hook", "hooked", "register_post_accumulate_grad_hook", "accumulated"),
}


def assemble(*own: type) -> Engine:
    """An engine of your own parts. The course's methods stand behind them, for what you have not written yet.

    Args:
        own: your classes, each with some of an engine's methods; one that is still empty counts for nothing.

    Returns:
        The engine; shown, it says which methods are yours.
    """
    written = [part for part in own if any(callable(value) for value in vars(part).values())]
    return type("Engine", (*written, Engine), {"__repr__": lambda self: _whose(written)})()


def beside(part: str) -> type:
    """The course's engine without the methods of one part: what an answer that is to be judged is put before."""
    left_out = {*PARTS[part], "__dict__", "__weakref__"}
    return type("Rest", (), {name: value for name, value in vars(Engine).items() if name not in left_out})


def _whose(own: list[Any]) -> str:
    names = [name for names in PARTS.values() for name in names]
    mine = [name for name in names if any(hasattr(part, name) for part in own)]
    rest = [name for name in names if name not in mine]
    return f"yours: {', '.join(mine) or 'nothing yet'}\nthe course's: {', '.join(rest) or 'nothing'}"
