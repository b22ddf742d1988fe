"""Who keeps something (``Holder``), and how (``Link``)."""

from collections.abc import Sequence
from dataclasses import dataclass

CACHE_OF = "the cache of "


@dataclass(frozen=True)
class Holder:
    """Who keeps something.

    Attributes:
        name: as one would write it: ``total``, ``self.history["loss"]``; "" where the search found nobody.
        kind: "variable", "container", "building" (it has no name yet), "cycle" (only the garbage collector frees
            it), or "nobody".
        where: the function whose variable it is, the class whose attribute it is, or the module.
        file: the file in which to look for the line that keeps.
        tail: the last part of the name: ("name", "total"), ("attribute", "losses"), ("key", "loss").
        before_tail: the part before it, likewise; ("", "") where there is none.
        container: "list", "dict", "deque" and so on; "" for a variable.
        count: how many things are in it.
        limit: how many there can be; None where nothing limits them.
        hook: "a forward hook on `encoder.3`", where the way leads through one.
        scope: "local", "global", "variable" (of a closure), "default" (of an argument) or "attribute".
        first_line: where the function begins whose variable it is.
        library: the object of a library's that keeps it: ``self.val_metric``; "" where the user's own code does.
        lets_go: what makes it let go: ``self.val_metric.reset()``; "" where nothing is known to.
    """

    name: str
    kind: str
    where: str = ""
    file: str = ""
    tail: tuple[str, str] = ("", "")
    container: str = ""
    count: int = 0
    limit: int | None = None
    hook: str = ""
    scope: str = ""
    first_line: int = 0
    before_tail: tuple[str, str] = ("", "")
    library: str = ""
    lets_go: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Two ways with the same key lead to the same holder."""
        return (self.kind, self.name, self.where, self.file)


NOBODY = Holder("", "nobody")


@dataclass(frozen=True)
class Link:
    """How a holder keeps one storage.

    Attributes:
        holder: who.
        graph: a recorded graph is part of the way.
        saved: "Addmm (mat1)": the operation and its slot that save the storage; "" where none does.
        tensor: "f32[64, 128]"; "" where no tensor is known.
        scalar: what the holder has in its hands is a tensor with one element.
        direct: the tensor is an item of the container, or what the variable refers to.
        error: an exception's traceback is part of the way.
        history: what the holder has in its hands has a history, even if backward has freed what that had saved.
        nodes: how many nodes of graphs the call that made the storage has left behind it.
        inside: where it lies in each thing in the container: ``.log_prob``, ``["loss"]``; "" where it is the thing.
    """

    holder: Holder
    graph: bool
    saved: str = ""
    tensor: str = ""
    scalar: bool = False
    direct: bool = False
    error: bool = False
    history: bool = False
    inside: str = ""
    nodes: int = 0


def says_more(link: Link, known: Sequence[tuple[int, Link]]) -> bool:
    """Whether a holder that was found is worth more than those known from before.

    When the function that had an object is over, a circle may still keep the object. What the object kept while it was
    in use grew by itself; a circle through ``ctx`` was made anew in each call.
    """
    if link.holder.kind == "cycle" and not link.holder.name.startswith("ctx."):
        return all(before.holder is NOBODY or before.holder.kind == "cycle" for _, before in known)
    return link.holder is not NOBODY
