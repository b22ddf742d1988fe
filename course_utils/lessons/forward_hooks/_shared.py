"""What the checks of lesson 07 have in common: a model with names, texts for cards, and some looks at a model."""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from course_utils.checks.claims import Missed, Trial, expect_hooks, expect_raises, numbers_apart

NAMES = ("encoder", "encoder.0", "encoder.1", "encoder.2", "act", "head")  # what is in ``layers``


def layers(trial: Trial, *, inplace: bool = False) -> nn.Sequential:
    """A nested model, from three columns to two."""
    width = trial.integer(5, 9)
    encoder = nn.Sequential(nn.Linear(3, width), nn.ReLU(inplace=inplace), nn.Linear(width, 4))
    return trial.fill(nn.Sequential(OrderedDict(encoder=encoder, act=nn.Tanh(), head=nn.Linear(4, 2))).double())


def sample(trial: Trial, items: Iterable[Any], count: int) -> list[Any]:
    """So many of the items, in any order."""
    items = list(items)
    return [items.pop(trial.integer(0, len(items) - 1)) for _ in range(count)]


def expect_clean_error(
    kind: type[Exception],
    model: nn.Module,
    call: Callable[[], Any],
    who: str = "model",
    swallowed: str = "swallowed",
    other: str = "",
) -> None:
    """The call lets an error of ``who`` through, and leaves no hook on a model that had none.

    ``swallowed``, ``other``: the misconception where there is no error, and where there is another one.
    """

    def called() -> Any:
        with contextlib.suppress(Missed):  # what came back is of no account: there should be nothing
            return call()

    expect_raises(kind, called, swallowed, what=f"the {kind.__name__} of the {who}", other=other)
    expect_hooks(model, 0, "only without error")


def words(names: Iterable[Any]) -> str:
    """Names in quotes, for the card."""
    return ", ".join(map(repr, names)) or "none"


def difference_details(got: Tensor, right: Tensor, of: str = "") -> dict[str, str]:
    """Where an answer's tensor first differs from the right one, as a card's ``expected`` and ``got``."""
    if got.shape != right.shape:
        return {"expected": f"shape {tuple(right.shape)}{of}", "got": f"shape {tuple(got.shape)}"}
    right_number, number = numbers_apart(got, right)
    return {"expected": right_number + of, "got": number}
