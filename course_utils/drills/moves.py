"""What a drill's topic is made of: a table of moves (``Move``, ``Topic``), and how a program is run (``execute``)."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

Answer = bool | str


class Move(NamedTuple):
    """A line of a program, or a few: the line, the same without its effect, and the effect in words.

    Attributes:
        text: with holes. ``{new}`` is a new name, ``{2..9}`` a number, ``{sin|cos}`` one of the texts, ``{kind}`` the
            name of a value of that kind (``Topic.kinds``) or one of ``Topic.texts``; a number tells two of a kind
            apart. The same hole twice is filled alike, and one in capitals is the same in the whole program.
        without: what to edit, as ``"old -> new"``; without an ``old`` the whole text is another one. Several edits are
            tried in turn; without any, the move decides nothing.
        words: the effect, a sentence without its full stop; it must be true of each answer that the edit changes.
        level: the first level at which it is drawn.
        weight: how often it is drawn, beside the others of its group.
        usual: whether such a line does it anyway: it is told where nothing else decides, and of ``{new}`` alone.
        about: the end of the keys that it is told of.
    """

    text: str
    without: str | Sequence[str] = ()
    words: str = ""
    level: int = 1
    weight: float = 1.0
    usual: bool = False
    about: str = ""


class Ask(NamedTuple):
    """What is asked of a key.

    Attributes:
        asks: the question; the values to choose from come behind it.
        says: the values, each with what it says, in words with ``{key}`` and ``{name}``.
        others: what any other value says; some that the program might have given are then to choose from.
    """

    asks: str
    says: Mapping[Any, str]
    others: str = ""


@dataclass(frozen=True)
class Topic:
    """What a drill is about.

    Attributes:
        task, lessons: what is asked of the whole program; the lessons whose misconceptions it practises.
        asks: by the end of a key, what is asked of it; the first that fits.
        moves, plans: moves by group; by level, plans: a program has a move of each group of one, in order.
        read: runs a program and reads the answers off it, by key.
        kinds: by name, whether a value is of that kind; it is told how often the value has been named.
        texts: by name, texts of which one is filled in; they may have holes of their own.
    """

    task: str
    lessons: Sequence[str]
    asks: Mapping[str, Ask]
    moves: Mapping[str, Sequence[Move]]
    plans: Mapping[int, Sequence[str]]
    read: Callable[[Sequence[str]], Mapping[str, Answer]]
    kinds: Mapping[str, Callable[[Any, int], bool]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)


def space() -> dict[str, Any]:
    """What a program finds imported; what it draws, it draws from a fixed seed."""
    torch.default_generator.manual_seed(0)
    return {"__name__": "drill", "torch": torch, "nn": nn, "F": F, "Thread": threading.Thread}


def execute(lines: Sequence[str]) -> dict[str, Any]:
    """Runs a program where grad mode is on; returns its names.

    A last line that goes backward may fail: a program without a line's effect can have nothing to go through.
    """
    names, end = space(), len(lines) - lines[-1].endswith("backward()")
    with torch.enable_grad():
        exec("\n".join(lines[:end]), names)
        with contextlib.suppress(RuntimeError):
            exec("\n".join(lines[end:]), names)
    return names


def tensors(names: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Those among a program's names."""
    return {name: value for name, value in names.items() if isinstance(value, torch.Tensor)}
