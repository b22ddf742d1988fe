"""The halves of saved-tensor hooks that PyTorch keeps but does not show (``possible_pack_hooks``,
``pack_hooks_among``).

A slot packed by hooks holds three Python objects: what the pack hook returned, the unpack hook, and the pack hook
itself. The first two can be read. The third matters because it mostly shares its variables with the unpack hook: while
it lives, so do they. Imports ``course_utils.graph.references``.
"""

from collections.abc import Iterable, Mapping
from types import FunctionType, MethodType

from course_utils.graph.references import Holdings


def possible_pack_hooks(
    holdings: Holdings, uses: Mapping[int, int], functions: Iterable[FunctionType | MethodType]
) -> dict[int, set[int]]:
    """The functions that share a closure variable (or, for methods, the object) with an unpack hook.

    Args:
        holdings: holds the unpack hooks; the functions found are added to it.
        uses: the number of slots that hold each unpack hook, by its key.
        functions: where to look.

    Returns:
        The keys of the functions by the unpack hook's.
    """
    owner = {anchor: key for key in uses for anchor in _anchors(holdings.get(key))}
    candidates: dict[int, set[int]] = {}
    for function in functions if owner else ():
        for anchor in _anchors(function):
            if anchor in owner and id(function) != owner[anchor]:
                candidates.setdefault(owner[anchor], set()).add(holdings.add(function))
    return candidates


def pack_hooks_among(
    holdings: Holdings, uses: Mapping[int, int], candidates: Mapping[int, Iterable[int]]
) -> dict[int, int]:
    """The pack hook's key by the unpack hook's: the candidate that has just as many references as there are slots.

    Then only the slots hold it. A pack hook that something else holds too is left out, and one that shares nothing is
    not found: the slots keep nothing alive by them.
    """
    return {
        key: partner
        for key, partners in candidates.items()
        for partner in partners
        if holdings.count(partner) == uses[key]
    }


def _anchors(hook: object) -> list[int]:
    """The ``id`` of what a function's variables live in, or of a method's object."""
    if type(hook) is FunctionType:
        return [id(cell) for cell in hook.__closure__ or ()]
    return [id(hook.__self__)] if type(hook) is MethodType else []
