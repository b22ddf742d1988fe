"""Short, plain text for things a learner looks at: bytes (``format_bytes``), tensors and other values (``describe``,
``class_name``), exceptions and warnings (``message_of``)."""

import threading
from collections.abc import Callable, Mapping
from numbers import Number

import torch

from course_utils.base import aligned as aligned
from course_utils.base import columns as columns
from course_utils.base import count_of as count_of
from course_utils.base import markdown_table as markdown_table
from course_utils.base import points as points
from course_utils.base import points_of as points_of

_DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.complex128: "c128",
    torch.complex64: "c64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_bytes(nbytes: int) -> str:
    """A byte count for reading: exact below 1 KiB, one decimal above, in powers of 1024.

    Args:
        nbytes: a number of bytes, or a difference of two.

    Returns:
        The number and its unit: B, KiB, MiB, GiB or TiB, which is the largest.

    Example:
        >>> format_bytes(512), format_bytes(-1536), format_bytes(395784)
        ('512 B', '-1.5 KiB', '386.5 KiB')
    """
    size, unit = abs(nbytes), 0
    value = float(size)
    # 1023.95 would print as "1024.0" of the smaller unit.
    while value >= 1023.95 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    sign = "-" if nbytes < 0 else ""
    return f"{sign}{size} B" if unit == 0 else f"{sign}{value:.1f} {_UNITS[unit]}"


def dtype_name(dtype: torch.dtype) -> str:
    """The short name of a dtype: ``f32`` for ``torch.float32``; PyTorch's own name for rare ones."""
    return _DTYPES.get(dtype, str(dtype).removeprefix("torch."))


def plain_text(text: str) -> str:
    """The text as Python's own ``str``, lone surrogates written out, so that every file can hold it."""
    return str.__str__(text).encode("utf-8", "backslashreplace").decode()


def class_name(value: object) -> str:
    """The name of a value's class, whatever its metaclass says."""
    return plain_text(type.__dict__["__name__"].__get__(type(value)))


def describe(value: object, limit: int = 80) -> str:
    """One line that says what a value is: ``f32[2, 3]`` for a tensor (with its device where that is not the CPU, and
    its value when it is 0-dim), the class for a module, items for containers, ``repr`` for the rest. Longer text than
    ``limit`` is cut and ends in "...". Never raises, whatever the value's own ``repr`` does.

    Example:
        >>> describe(torch.ones(2, 3)), describe(torch.tensor(2.5)), describe([torch.ones(1), None])
        ('f32[2, 3]', 'f32[] 2.5', '[f32[1], None]')
    """
    return _line(lambda: _describe(value, depth=0), f"{class_name(value)} whose repr", limit)


def message_of(error: BaseException | str, limit: int = 200) -> str:
    """What an exception or a warning says, in one line: ``ValueError: out of luck``. Never raises."""
    said = _line(lambda: str(error).strip().partition("\n")[0], "its message", limit)
    return f"{class_name(error)}: {said}" if said else class_name(error)


def _line(say: Callable[[], str], what: str, limit: int) -> str:
    try:
        text = plain_text(say())
    except KeyboardInterrupt as error:
        # A learner's own arrives in the main thread.
        if threading.current_thread() is threading.main_thread():
            raise
        text = f"<{what} raises {class_name(error)}>"
    except BaseException as error:  # a hostile or broken method: say so instead of failing with it
        text = f"<{what} raises {class_name(error)}>"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3].rstrip(".") + "..."


def _describe(value: object, depth: int) -> str:
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    if isinstance(value, (str, bytes, bool, Number)) or value is None or value is ...:
        return "..." if value is ... else repr(value)
    if depth < 2 and isinstance(value, (list, tuple, set, frozenset)) and not isinstance(value, torch.Size):
        return _describe_items(value, depth)
    if depth < 2 and isinstance(value, Mapping):
        items = [f"{_describe(k, 2)}: {_describe(v, depth + 1)}" for k, v in list(value.items())[:8]]
        return "{" + ", ".join(items) + (", ..." if len(value) > 8 else "") + "}"
    if callable(value) and hasattr(value, "__name__"):
        return f"{value.__name__}"
    if isinstance(value, (list, tuple, Mapping, set)):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)


def _describe_items(values: list | tuple | set | frozenset, depth: int) -> str:
    brackets = "[]" if isinstance(values, list) else "()" if isinstance(values, tuple) else "{}"
    opening, closing = brackets[0], brackets[1]
    items = [_describe(item, depth + 1) for item in list(values)[:8]]
    more = f", ... {len(values)} items" if len(values) > 8 else ""
    comma = "," if isinstance(values, tuple) and len(values) == 1 else ""
    return opening + ", ".join(items) + comma + more + closing


def _describe_tensor(tensor: torch.Tensor) -> str:
    text = f"{dtype_name(tensor.dtype)}[{', '.join(map(str, tensor.shape))}]"
    if tensor.device.type != "cpu":
        text += f" {tensor.device}"
    if tensor.dim() == 0 and tensor.device.type == "cpu" and not tensor.is_quantized:
        number: float | int | complex = tensor.detach().item()
        text += f" {number:.6g}" if isinstance(number, float) else f" {number}"
    return text
