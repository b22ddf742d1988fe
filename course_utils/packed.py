"""The halves of saved-tensor hooks that PyTorch keeps but does not show (``hidden_pack_hooks``).

A slot packed by hooks holds three Python objects: what the pack hook returned, the unpack hook, and the pack hook
itself. The first two can be read. The third matters because it mostly shares its variables with the unpack hook: while
it lives, so do they. Imports ``course_utils.references``.
"""

from collections.abc import Mapping
from types import FunctionType, MethodType

from course_utils.references import Holdings, live_closures


def hidden_pack_hooks(holdings: Holdings, uses: Mapping[int, int]) -> dict[int, int]:
    """Finds the pack hook that goes with each unpack hook, where the two share variables or an object.

    A function is taken for the pack hook if it shares a closure variable (or, for methods, the object) with the unpack
    hook and has just as many references as there are slots: then only the slots hold it. A pack hook that something
    else holds too is left out, and so is one that shares nothing: the slots keep nothing alive by them.

    Args:
        holdings: holds the unpack hooks; functions that may be pack hooks are added to it.
        uses: the number of slots that hold each unpack hook, by its key.

    Returns:
        The pack hook's key by the unpack hook's.
    """
    owner = {anchor: key for key in uses for anchor in _anchors(holdings.get(key))}
    if not owner:
        return {}
    candidates: dict[int, set[int]] = {}
    for function in live_closures():
        for anchor in _anchors(function):
            if anchor in owner and id(function) != owner[anchor]:
                candidates.setdefault(owner[anchor], set()).add(holdings.add(function))
        del function
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
