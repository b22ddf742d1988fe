"""What a watch has seen, in plain numbers and lines (``Log``); and what can be seen of a tensor and a name at once."""

import cmath
import functools
import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from traceback import walk_stack
from types import FrameType
from typing import Any

import torch

from course_utils.base.user_code import NOWHERE, Site, is_user_file, user_site
from course_utils.graph import operation_name
from course_utils.record.storages import OLD, Listener, Recorder, Storage
from course_utils.why.pages import SILENCES

_AROUND = re.compile(r"^(?:_|native_|cudnn_|fused_|safe_)+|(?:_backward|_forward)+$")


@dataclass(eq=False)
class Call:
    """One call of an operation: what PyTorch calls it below autograd, and the user's line."""

    name: str = ""
    site: Site = NOWHERE
    entered: "Cut | None" = None  # where the history of something that it was given had ended
    stack: tuple[Site, ...] = ()  # of one that recorded or edited, the user's lines that were running, innermost first


@dataclass(eq=False)
class Edited(Call):
    """An edit in place."""

    version: int = 0  # the memory's counter after it
    by: str = ""  # the library's function that did it for the line, "embedding"
    steps: bool = False  # an optimizer did it
    in_part: bool = False  # some of the elements, by an index


@dataclass(eq=False)
class Cut(Call):
    """Where a history ended: by "detach", a "copy", "number", "dtype" or "step", "data", a "mode" (recording was off),
    "operation" (no derivative), "reentrant" (a checkpoint); or of what never had one: a "gradient", plain "values".
    """

    how: str = ""
    leaves: frozenset[int] = frozenset()  # the numbers of the memory of those that the history led to
    node: int = -1  # the number of the node behind which it ended
    after: int = 0  # so many backward passes had ended before the first time
    switch: Site = NOWHERE  # the line that switched recording off: of a block, a call or a decorator


@dataclass(eq=False)
class NotFinite(Call):
    """The call that first made a NaN or an infinity; or, on the way back, nothing but zeros."""

    what: str = ""  # "nan", "inf" or "zero"
    inputs: tuple[str, ...] = ()  # the ranges of what it was given, in words
    backward: bool = False
    given: str = ""  # what it was given had one already: "data" or "weights"
    before: "NotFinite | None" = None  # what made the infinity that became a NaN here


@dataclass(eq=False)
class Pass:
    """One backward pass."""

    site: Site = NOWHERE  # the user's line
    stack: tuple[Site, ...] = ()  # those that were running, innermost first
    at: int = -1  # the number that the next node would have got
    roots: frozenset[int] = frozenset()  # the numbers of the nodes that it began at
    nodes: frozenset[tuple[str, int]] = frozenset()  # those that it went through, by name and number
    keeps: bool = False  # what they had saved
    leaves: frozenset[int] = frozenset()  # the numbers of the memory of those that it led to
    filled: frozenset[int] = frozenset()  # of those that had a gradient afterwards
    failed: bool = False
    bad: NotFinite | None = None  # the first in it

    def has(self, node: Any) -> bool:
        """Whether it went through a node."""
        return (node.name(), node._sequence_nr()) in self.nodes


class Memory(Storage):
    """A storage, and what became of it."""

    edits: tuple[Edited, ...] = ()  # the first one first
    cut: Cut | None = None  # where the history ended of what is in it, or of what that was computed from
    bad: NotFinite | None = None  # what first made it so
    recorded: bool = False  # what is in it has a history
    used: Site | None = None  # the latest line that computed something with a history from it


class Log:
    """What happened: to memory, by its record, which ends with it; to nodes, by their thread and number."""

    def __init__(self) -> None:
        self.recorder = Recorder(True, Listener(Memory, lambda *born: None, lambda died: None))
        self.memory: Callable[[torch.Tensor], list[Memory]] = self.recorder.records  # none where nobody met the tensor
        self.threads: list[dict[int, Call]] = []  # a node's number is its thread's own
        self.cut_at: dict[tuple[Site, str], Cut] = {}
        self.switches: dict[int, Site] = {}
        self.passes, self.count = deque[Pass](maxlen=64), 0  # the latest, and how many there were
        self.running: list[Pass] = []
        self.broken = Pass()  # the latest that ended in an error
        self.first_bad: NotFinite | None = None
        self.failed, self.ended = 0, float("inf")  # operations that could not be looked at; when the watch ended

    @staticmethod
    def stack(frame: FrameType) -> tuple[Site, ...]:
        """The user's lines that are running, innermost first."""
        return tuple(user_site(one) for one, _ in walk_stack(frame) if is_user_file(one.f_code.co_filename))

    def caveat(self) -> str:
        """What is to be said of the watch: that it failed at an operation, or ended a while ago; "" where neither."""
        seconds = time.monotonic() - self.ended
        ended = f"ended {seconds / 60:.0f} minutes ago" if seconds > 90 else f"ended {seconds:.0f} s ago"
        return "could not look at every operation" if self.failed else ended * (seconds > 10)

    def edit(self, tensor: torch.Tensor, edit: Edited) -> None:
        """Notes an edit of a tensor's memory."""
        for memory in self.memory(tensor):
            memory.edits = (*memory.edits, edit)[-24:]

    def of(self, tensor: torch.Tensor, what: str) -> Any:
        """What is known of a tensor's memory; None where nothing is."""
        return next((found for memory in self.memory(tensor) if (found := getattr(memory, what))), None)

    def numbers_of(self, tensors: Iterable[torch.Tensor]) -> frozenset[int]:
        """The numbers of the memory of some tensors."""
        return frozenset(memory.number for tensor in tensors for memory in self.memory(tensor))

    def node(self, node: Any) -> Call:
        """The call that recorded a node; an empty one where none is known, or several in several threads may have."""
        number, name = (node._sequence_nr(), spoken(node.name())) if node is not None else (-1, "")
        found = [nodes[number] for nodes in self.threads if number in nodes]
        found = [call for call in found if len(found) == 1 or spoken(call.name) == name]
        return found[0] if len({call.site for call in found}) == 1 else Call()

    def made(self, tensor: torch.Tensor) -> Call:
        """The call that made a tensor's memory."""
        made = (memory for memory in self.memory(tensor) if memory.op is not OLD and memory.born_task < 0)
        return next((Call(memory.op_name.partition("::")[2], memory.site) for memory in made), Call())

    def cut(self, tensor: torch.Tensor) -> Cut | None:
        """Where the history of a tensor ended, or of what it was computed from."""
        if tensor.requires_grad:
            return None
        gradients = (memory for memory in self.memory(tensor) if memory.born_task >= 0)
        return self.of(tensor, "cut") or next((Cut("grad", one.site, how="gradient") for one in gradients), None)

    def cuts_not_followed(self, leaf: torch.Tensor | None = None) -> list[Cut]:
        """The latest cuts of what comes from a leaf, or from any, by which a value may have gone on unseen: through a
        number or an array. A loss that went to the log as a number is none, nor a copy of a leaf's own values, nor what
        was read after the last pass.
        """
        roots = {number for one in self.passes for number in one.roots}
        wanted = self.numbers_of([leaf] if leaf is not None else [])
        cuts = (it for it in reversed(self.cut_at.values()) if it.how in ("detach", "copy", "number", "data", "dtype"))
        cuts = (cut for cut in cuts if cut.after < self.count or not self.count)
        cuts = (cut for cut in cuts if cut.node not in roots and (cut.how, cut.node) != ("detach", -1))
        cuts = (cut for cut in cuts if leaf is None or wanted & cut.leaves)
        return list({cut.site: cut for cut in cuts}.values())

    def freed(self, node: Any) -> Pass | None:
        """The backward pass that freed what a node had saved."""
        return next((one for one in self.passes if one.has(node) and not one.keeps and not one.failed), None)

    def passed(self, tensor: torch.Tensor) -> Pass | None:
        """The latest backward pass that led to a leaf."""
        numbers = self.numbers_of([tensor])
        return next((one for one in reversed(self.passes) if numbers & one.leaves and not one.failed), None)


def kind_of_bad(tensor: torch.Tensor, may_be_zero: bool = True) -> str:
    """ "nan", "inf", "zero" where every number is that and may not be, else "". The sum tells it, most times."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.layout is not torch.strided or tensor.is_meta:
        return ""
    tensor = tensor.detach()
    if cmath.isfinite(total := tensor.sum().item()):
        return "" if total or may_be_zero or not tensor.numel() or tensor.any() else "zero"
    return "nan" if tensor.isnan().any() else "inf" if tensor.isinf().any() else ""


def range_of(tensor: torch.Tensor) -> str:
    """The least and the greatest number of a tensor, and whether some are NaN, in words."""
    flat = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor.detach()
    known = flat[~flat.isnan()]
    said = [" to ".join(dict.fromkeys(f"{one.item():.4g}" for one in known.aminmax()))] if known.numel() else []
    return " and ".join(said + ["NaN"] * bool(flat.isnan().any())) or "empty"


@functools.lru_cache(maxsize=1024)
def spoken(name: str) -> str:
    """An operation as its user calls it: "nll_loss" for "NllLossBackward0", "to" for "_to_copy"."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation_name(name)).lower()
    return SILENCES["spoken"].get(plain := _AROUND.sub("", snake), plain)
