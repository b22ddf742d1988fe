"""Which variable carries a graph over from one call to the next (``Carriers``).

A recurrent state, and all that is computed from it, lead to every call before: ``output, state = rnn(x, state)``. Only
the state is what has to be cut off. It is the one whose value, as it was when an earlier call began, is part of the
graph of a later call.
"""

import torch

from course_utils.graph.references import is_node
from course_utils.holders.holder import Holder, Link
from course_utils.holders.search import Path, Search
from course_utils.holders.ways import link_of

_MOST = 2000


class Carriers:
    """What variables held when calls began, by the nodes of their histories; nothing is kept alive."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], Holder] = {}

    def note(self, looking: Search) -> None:
        """Notes the variables that hold something with a history now, as a call begins."""
        for path in looking.with_history():
            tensor = path.things[-1]
            holder = link_of(path).holder
            if holder.kind == "variable" and isinstance(tensor, torch.Tensor):
                self._held.setdefault(_name(tensor.grad_fn), holder)
        for old in list(self._held)[:-_MOST]:
            del self._held[old]

    def correct(self, links: dict[int, tuple[Path, Link]]) -> dict[int, Holder]:
        """For ways that begin at a variable which only leads to what another one carries over: that other one."""
        instead: dict[tuple[str, ...], Holder] = {}
        for path, link in links.values():
            if link.holder.kind == "variable":
                carrier = self.on(path)
                if carrier is not None:
                    instead[link.holder.key] = carrier
        return {key: instead[link.holder.key] for key, (_, link) in links.items() if link.holder.key in instead}

    def on(self, path: Path) -> Holder | None:
        """The variable that carries over what a way leads through; None where none is known."""
        for thing in path.things:
            if is_node(thing) and (holder := self._held.get(_name(thing))) is not None:
                return holder
        return None


def _name(node: object) -> tuple[str, int]:
    """What tells a node from all others of its thread."""
    return type(node).__name__, node._sequence_nr()  # type: ignore[attr-defined]
