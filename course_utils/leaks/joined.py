"""One tensor that takes in more with every call: ``bank = torch.cat([bank, batch])`` (``Joined``, ``joins``).

Its memory is new each time, so nothing of it grows old; it is its size that grows. What is meant is a result that an
earlier call's result of the same line is part of. A model that joins features within ``forward`` does no such thing.
"""

import ast
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from course_utils.base.user_code import Site, is_user_file
from course_utils.graph.storages import storages_of
from course_utils.holders.find import find
from course_utils.holders.holder import NOBODY, Holder
from course_utils.holders.ways import link_of
from course_utils.leaks.kept import Birth, Stretch
from course_utils.record.operations import Run, Watcher
from course_utils.source.statements import parsed

_JOINS = (torch.ops.aten.cat.default, torch.ops.aten.stack.default)
_LEAST = 8
"""So many calls must have joined something."""


class Joined:
    """What one line joined to its own result of an earlier call, in calls from one place.

    Attributes:
        site: the user's line.
        place: the number of the place.
        ended: the stretches that ended with another beginning, or with the tensor's death.
        holder: who has the tensor, as was found while it lived.
    """

    def __init__(self, site: Site, place: int) -> None:
        self.site, self.place = site, place
        self.ended: list[Stretch] = []
        self.holder = NOBODY
        self._sizes: dict[int, int] = {}
        self._last: Birth | None = None

    def add(self, made: Birth, parts: Sequence[Birth]) -> None:
        """Takes notice of a result, and of what it was joined from."""
        before = self._last
        follows = before is not None and any(part is before for part in parts)
        if not (follows and before.call < made.call and before.nbytes < made.nbytes):  # type: ignore[union-attr]
            self._end()
        elif len(self._sizes) in (_LEAST, 4 * _LEAST):
            self.look()
        self._sizes[made.call], self._last = made.nbytes, made

    def _end(self) -> None:
        stretch = self.stretch()
        if stretch is not None:
            self.ended = [*self.ended[-15:], stretch]
        self._sizes = {}

    def look(self) -> None:
        """Finds out who has the tensor now."""
        self.holder = _named_on(self.site)
        if self._last is not None and self.holder is NOBODY:
            found = find([self._last.key], seconds=0.5).found.get(self._last.key)
            self.holder = link_of(found).holder if found is not None else NOBODY

    def stretch(self) -> Stretch | None:
        """The calls over which it grew since it began anew; None where they are too few."""
        calls = sorted(self._sizes)
        if len(calls) < _LEAST or self._last is None:
            return None
        values = {after: self._sizes[after] - self._sizes[before] for before, after in itertools.pairwise(calls)}
        return Stretch(values, self._sizes[calls[-1]], goes_on=self._last() is not None)


def joins(live: Mapping[int, Any], place_of: Sequence[int], joined: dict[tuple[Site, int], Joined]) -> Watcher:
    """Takes notice of operations that join tensors.

    Args:
        live: the known storages by ``id``.
        place_of: for each call, the number of its place.
        joined: what is joined, by line and place; added to.
    """

    def look(args: tuple, out: torch.Tensor) -> None:
        made = live.get(id(out.untyped_storage()))
        parts = [live.get(id(storage)) for part in args[0] for storage in storages_of(part)]
        if made is not None and made.call >= 0 and not made.in_backward and out.is_floating_point():
            key = made.site, place_of[made.call]
            if key not in joined:
                joined[key] = Joined(*key)
            joined[key].add(made, [part for part in parts if part is not None])
        for part in parts:
            if part is not None and part is not made and part.kept:
                part.joined = True

    def watch(run: Run, func: Any, args: tuple, kwargs: dict) -> Any:
        out = run(func, args, kwargs)
        if func in _JOINS and type(out) is torch.Tensor and args:
            look(args, out)
        return out

    return watch


def _named_on(site: Site) -> Holder:
    """The variable or attribute that is joined to itself on a line of the user's; ``NOBODY`` where it says none."""
    tree = parsed(site.file) if is_user_file(site.file) else None
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.Assign) or not node.lineno <= site.line <= (node.end_lineno or node.lineno):
            continue
        target = node.targets[0]
        text = ast.unparse(target)
        used = (part for part in ast.walk(node.value) if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)))
        if text in map(ast.unparse, used):
            if isinstance(target, ast.Attribute):
                return Holder(text, "variable", site.function.split(".")[0], site.file, scope="attribute")
            scope = "global" if site.function == "<module>" else "local"
            return Holder(text, "variable", site.function, site.file, scope=scope)
    return NOBODY
