"""Sees whether dicts, functions and cells are what they were by reading their memory (``Images``).

To look at an object in Python is to write its reference count, and in a forked process every page that is written is
copied first: with thousands of objects that takes longer than judging an answer. Reading the same memory as bytes
copies nothing: a submission of lesson 03 takes 0.31 s so, and 0.42 s without (medians of 20). The layouts are CPython's
(https://github.com/python/cpython/blob/3.11/Include/internal/pycore_dict.h); ``work`` tries them out, and where they
are others, nothing here is used. Imports nothing of the course.
"""

from __future__ import annotations

import builtins
import ctypes
import itertools
import sys
import types
from typing import Any

import numpy

# This module's functions look names up in a copy that no student's code can reach by name. It must stand before them.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python

_WORD = ctypes.sizeof(ctypes.c_void_p)
_HEAD = 2 * _WORD  # an object's reference count and type
_TABLE_HEAD = 32  # of a table: counts and a version, which reading changes
_EMPTY = sys.getsizeof({})


class Images:
    """What objects looked like in memory, when this was made. They must be kept alive.

    Args:
        spaces: dicts, and views of classes' dicts (``vars(cls)``).
        functions: functions.
        cells: cells of closures.

    Raises:
        TypeError: one of the dicts has no table of its own, see ``has_own_table``.
    """

    def __init__(self, spaces: list[Any], functions: list[types.FunctionType], cells: list[types.CellType]) -> None:
        parts = [_dict_places(space) for space in spaces]
        self._heads = _Words([place for head, _ in parts for place in head])
        self._tables = _Words([place for _, table in parts for place in table])
        ends = list(itertools.accumulate(len(table) for _, table in parts))
        self._table_slices = list(zip([0, *ends], ends, strict=False))
        self._functions = _Words([place for function in functions for place in _function_places(function)])
        self._cells = _Words([id(cell) + _offset(cell, cell.cell_contents) for cell in cells])

    def changed_spaces(self) -> list[int]:
        """Which of the dicts may differ, by their place in ``spaces``; the others are as they were."""
        if self._heads.unchanged() and self._tables.unchanged():
            return []
        # A table is read only while its dict still has it: another one may lie anywhere.
        changed = []
        for number, (begin, end) in enumerate(self._table_slices):
            head = 3 * number, 3 * number + 3
            if not self._heads.unchanged(*head) or not self._tables.unchanged(begin, end):
                changed.append(number)
        return changed

    def functions_as_they_were(self) -> bool:
        return self._functions.unchanged()

    def cells_as_they_were(self) -> bool:
        return self._cells.unchanged()


class _Words:
    """Words of memory, and what stood in them."""

    def __init__(self, addresses: list[int]) -> None:
        self._places = numpy.array([(address - _WORD) // _WORD for address in addresses], dtype=numpy.int64)
        self._before = _take(self._places).tobytes()

    def unchanged(self, begin: int = 0, end: int | None = None) -> bool:
        before = self._before if end is None else self._before[begin * _WORD : end * _WORD]
        return bool(_take(self._places[begin:end]).tobytes() == before)


# All memory that there is, as whole words, from the second one on: ctypes knows no address 0. Nothing is read but what
# is asked for.
_memory = numpy.ctypeslib.as_array((ctypes.c_int64 * 2**44).from_address(_WORD))
_memory.flags.writeable = False
_take = _memory.take


def has_own_table(space: Any) -> bool:
    """Whether a dict can be seen here: its values do not lie in an object that it belongs to."""
    try:
        _dict_places(space)
    except TypeError:
        return False
    return True


def _read(address: int, size: int) -> bytes:
    return bytes((ctypes.c_char * size).from_address(address).raw)


def _words(address: int, size: int) -> range:
    return range(address, address + size - size % _WORD, _WORD)


def _dict_places(space: Any) -> tuple[list[int], range]:
    """Where a dict keeps its size and the way to its table, and where its table keeps its entries."""
    address = id(space)
    if isinstance(space, types.MappingProxyType):
        address = ctypes.c_void_p.from_address(id(space) + _HEAD).value or 0
        space = ctypes.cast(address, ctypes.py_object).value
    if type(space) is not dict:
        raise TypeError(f"a {type(space).__name__} is no dict")
    # Number of entries, a version that changes whenever it likes, the table, and where a shared table's values lie.
    count, _, table, values = (address + _HEAD + place * _WORD for place in range(4))
    if any(_read(values, _WORD)):
        raise TypeError("its values lie in its object")
    size = sys.getsizeof(space) - _EMPTY
    start = int.from_bytes(_read(table, _WORD), sys.byteorder)
    entries = _words(start + _TABLE_HEAD, size - _TABLE_HEAD) if size > _TABLE_HEAD else range(0)
    return [count, table, values], entries


def _function_places(function: types.FunctionType) -> list[int]:
    held = (function.__code__, function.__defaults__, function.__kwdefaults__)
    for place, value in zip(_PLACES, held, strict=True):
        expected = 0 if value is None else id(value)
        if int.from_bytes(_read(id(function) + place, _WORD), sys.byteorder) != expected:
            raise TypeError("its fields lie elsewhere")
    return [id(function) + place for place in _PLACES]


def _offset(owner: Any, value: Any) -> int:
    """Where in an object's memory a reference to ``value`` is."""
    wanted = id(value).to_bytes(_WORD, sys.byteorder)
    memory = _read(id(owner), type(owner).__basicsize__)
    for place in range(_HEAD, len(memory), _WORD):
        if memory[place : place + _WORD] == wanted:
            return place
    raise TypeError("it does not hold the value in itself")


def _places() -> tuple[int, int, int]:
    """Where a function keeps its code, its defaults and its keyword defaults."""

    def probe(a: object = _PROBE_A, *, b: object = _PROBE_B) -> None: ...

    code, defaults, keywords = probe.__code__, probe.__defaults__, probe.__kwdefaults__
    return _offset(probe, code), _offset(probe, defaults), _offset(probe, keywords)


_PROBE_A, _PROBE_B = object(), object()
try:
    _PLACES = _places()
except TypeError:
    _PLACES = (0, 0, 0)  # another layout: ``work`` says so


def work() -> bool:
    """Whether the layouts are as they are described here: tried on objects made for it."""

    class Owner:
        name = 1

    def outer() -> Any:
        value: object = _PROBE_A

        def inner() -> object:
            return value

        def other() -> object:
            return None

        return inner, other

    inner, other = outer()
    space: dict[str, object] = {f"name{i}": object() for i in range(20)}
    try:
        (cell,) = inner.__closure__
        for change in (lambda: space.update(name3=None), lambda: space.pop("name4"), lambda: space.update(new=1)):
            images = Images([space, vars(Owner)], [inner, other], [cell])
            if images.changed_spaces():
                return False
            change()
            if images.changed_spaces() != [0]:
                return False
        images = Images([space, vars(Owner)], [inner, other], [cell])
        Owner.name = 2
        seen = [images.changed_spaces() == [1]]
        for field, value in (("__defaults__", (1,)), ("__kwdefaults__", {"a": 1}), ("__code__", None)):
            images = Images([space], [inner, other], [cell])
            seen.append(images.functions_as_they_were() and images.cells_as_they_were())
            setattr(other, field, (lambda: 3).__code__ if value is None else value)
            seen.append(not images.functions_as_they_were())
        images = Images([space], [inner, other], [cell])
        cell.cell_contents = _PROBE_B
        seen.append(not images.cells_as_they_were() and images.functions_as_they_were())
        return all(seen)
    except (TypeError, ValueError):
        return False
