"""The question itself (``why``)."""

import sys
from collections.abc import Callable

import torch

from course_utils.base.errors import explain
from course_utils.base.text import describe, message_of
from course_utils.graph.references import probing_alone
from course_utils.why.backward import modified, second
from course_utils.why.history import no_history, silence
from course_utils.why.log import Log, kind_of_bad
from course_utils.why.not_finite import finite, nan_in_backward, not_finite
from course_utils.why.objects import by_page
from course_utils.why.pages import ErrorPage, page_for
from course_utils.why.reason import UNKNOWN, Reason
from course_utils.why.scene import Scene
from course_utils.why.watch import latest_log

_SEARCHES: dict[str, Callable[[Scene], Reason]] = {
    "modified_in_place": modified,
    "second_backward": second,
    "does_not_require_grad": no_history,
    "nan_in_backward": nan_in_backward,
}


def why(what: BaseException | torch.Tensor | str | None = None, loss: torch.Tensor | None = None) -> Reason:
    """Why the last error was raised, why a tensor has no gradient, or why a loss is NaN; with your own names and lines.

    Changes nothing and runs none of your code: gradients, hooks, random numbers and modes stay as they are. Never
    raises because of what it finds; what it cannot know it says.

    Example:
        >>> import torch
        >>> w = torch.ones(3, requires_grad=True)
        >>> try:
        ...     (w * w).backward()
        ... except RuntimeError as error:
        ...     print(why(error).cause)
        forgotten_mean

    Args:
        what: an exception; by default the last one. Or a message that somebody else got, pasted: what its page in the
            index of errors says. Or a tensor: a parameter or an input whose ``.grad`` is None or that does not move, a
            loss that is NaN or infinite.
        loss: what the tensor's gradient was expected of.

    Returns:
        What was found: a card in a notebook, text elsewhere.

    Raises:
        TypeError: it was asked about something else.
    """
    if what is not None and not isinstance(what, (BaseException, torch.Tensor, str)):
        raise TypeError(
            explain(
                f"why({describe(what)}).",
                "nothing, for the last error; an exception; its message; or a tensor.",
                try_this="why(model.weight) or why(model.weight, loss)",
            )
        )
    error = RuntimeError(what) if isinstance(what, str) else what if isinstance(what, BaseException) else None
    error = error or sys.exception() or getattr(sys, "last_value", None)
    recording, log = torch.is_grad_enabled(), latest_log()
    try:
        with probing_alone():
            if isinstance(what, torch.Tensor):
                scene = Scene(log, tensors=(what,) if loss is None else (what, loss), recording=recording)
                return _of_tensor(scene, what, loss).done(log.age())
            return _of_error(error, log, recording)
    except Exception as failure:
        said = "The search itself failed, which is a mistake of the course."
        happened = [said, message_of(failure), *([message_of(error)] if error is not None else [])]
        return Reason("", UNKNOWN, "Could not find out", happened)


def _of_tensor(scene: Scene, tensor: torch.Tensor, loss: torch.Tensor | None) -> Reason:
    """Why a tensor is not finite, has no gradient or does not move; of a loss that is finite, that it is."""
    if kind_of_bad(tensor) or (tensor.is_leaf and tensor.grad is not None and kind_of_bad(tensor.grad)):
        return not_finite(scene, tensor)
    is_loss = tensor.numel() == 1 and tensor.grad_fn is not None and not tensor.retains_grad
    return finite(scene, tensor) if is_loss and loss is None else silence(scene, tensor, loss)


def _of_error(error: BaseException | None, log: Log, recording: bool) -> Reason:
    """Why an error was raised."""
    if error is None:
        return Reason("", UNKNOWN, "No error is known", ["No error was raised yet in this session."])
    one, page = known_error(error)
    if page is None:
        said = [message_of(error), "It is none of the errors of autograd that the course knows."]
        return Reason("", UNKNOWN, "An error that is not in the index", said)
    if one.__traceback__ is None:  # a message that was pasted
        return Reason(page.key, page.causes[0].key, happened=[page.causes[0].cause]).done()
    scene, search = Scene(log, one, recording=recording), _SEARCHES.get(page.key)
    return (search(scene) if search is not None else by_page(scene, page)).done(log.age())


def known_error(error: BaseException) -> tuple[BaseException, ErrorPage | None]:
    """The first that has a page in the index, of an error and those that it came from, and its page."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        if (page := page_for(f"{type(one).__name__}: {one}")) is not None:
            return one, page
        seen.append(one)
        one = one.__cause__ or one.__context__
    return error, None
