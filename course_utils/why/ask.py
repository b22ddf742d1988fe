"""The question itself (``why``), and what can be said of any error that has a page in the index."""

import re
import sys
from collections.abc import Callable
from traceback import extract_tb
from typing import cast

import torch

from course_utils.base import explain
from course_utils.base.text import describe, message_of
from course_utils.base.torch_private import FunctionBase
from course_utils.graph.recorded import nodes_behind
from course_utils.graph.references import probing_alone
from course_utils.source import returns_nothing, statement_at
from course_utils.why.backward import modified, nan_in_backward, not_finite, second
from course_utils.why.history import Silence, no_history, tell_cuts, tell_places
from course_utils.why.log import Log, kind_of_bad, spoken
from course_utils.why.pages import FINE, UNKNOWN, ErrorPage, Reason, page_for
from course_utils.why.scene import Scene
from course_utils.why.watch import latest


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
        expected = "nothing, for the last error; an exception; its message; or a tensor."
        raise TypeError(explain(f"why({describe(what)}).", expected, try_this="why(model.weight)"))
    error = RuntimeError(what) if isinstance(what, str) else what if isinstance(what, BaseException) else None
    error = error or sys.exception() or getattr(sys, "last_value", None)
    log = latest[0]
    try:
        if isinstance(what, torch.Tensor):
            scene = Scene(log, tensors=(what,) if loss is None else (what, loss))
            with probing_alone():
                return _of_tensor(scene, what, loss).done(log.caveat())
        return _of_error(error, log)
    except Exception as failure:
        said = "The search itself failed, which is a mistake of the course."
        happened = [said, message_of(failure), *([message_of(error)] if error is not None else [])]
        return Reason("", UNKNOWN, "Could not find out", happened)


def _of_tensor(scene: Scene, tensor: torch.Tensor, loss: torch.Tensor | None) -> Reason:
    """Why a tensor is not finite, has no gradient or does not move; of a loss that is finite, that it is."""
    is_loss = loss is None and tensor.numel() == 1 and tensor.grad_fn is not None and not tensor.retains_grad
    for one in (tensor, *(scene.leaves if is_loss else ())):
        if kind_of_bad(one) or (one.is_leaf and one.grad is not None and kind_of_bad(one.grad)):
            return not_finite(scene, one)
    if loss is None and (back := scene.log.passed(tensor)) is not None and not back.nodes:  # it began and ended there
        return no_history(scene, back.site)
    if not is_loss:
        return Silence(scene, tensor, loss).answer()
    given = {id(one): one for _, _, group in scene.groups for one in group["params"]}
    ends = (isinstance(it, FunctionBase) or id(getattr(it, "variable", it)) in given for it in nodes_behind(tensor))
    if given and not any(ends):  # a custom Function may hide weights, as a reentrant checkpoint does
        reason = Silence(scene, next(iter(given.values())), tensor).unreached()
        reason.title = "No weight that an optimizer has leads to the loss"
        return reason
    said = f"`{scene.name(tensor) or 'loss'}` is finite, {tensor.item():.4g}. So are its weights and their gradients."
    return Reason("", FINE, "Nothing is seen to be wrong with the loss", [said])


def _of_error(error: BaseException | None, log: Log) -> Reason:
    """Why an error was raised."""
    if error is None:
        return Reason("", UNKNOWN, "No error is known", ["No error was raised yet in this session."])
    one, page = known_error(error)
    if page is None:
        said = [message_of(error), "It is none of the errors of autograd that the course knows."]
        return Reason("", UNKNOWN, "An error that is not in the index", said)
    if one.__traceback__ is None:  # a message that was pasted
        return Reason(page.key).done()
    scene = Scene(log, one)  # which looks whether recording is on
    with probing_alone():
        return _SEARCHES.get(page.key, _by_page)(scene).done(log.caveat())


def known_error(error: BaseException) -> tuple[BaseException, ErrorPage | None]:
    """The first that has a page in the index, of an error and those that it came from, and its page."""
    chain = [error]
    for one in chain:  # grows
        at = [frame.line or "" for frame in extract_tb(one.__traceback__)[-1:]] or [str(one)]  # pasted
        if (page := page_for(f"{type(one).__name__}: {one}")) is not None and page.reads in at[0]:
            return one, page
        before = one.__cause__ or one.__context__
        chain += [before] if before is not None and all(before is not known for known in chain) else []
    return error, None


def _by_page(scene: Scene) -> Reason:
    """What can be said of any error that has a page: the line, what the tensors in it are, what is at hand."""
    page, inner = cast(ErrorPage, page_for(scene.message)), scene.frames[-1].f_code
    reason = Reason(page.key)
    module = next((it for it in reversed(scene.in_torch("self")) if issubclass(type(it), torch.nn.Module)), None)
    inside = scene.name(module) or inner.co_name * (f"{torch.__path__[0]}/nn/" in inner.co_filename)
    reason.tell("{raised}, raised it[, inside `{inside}`].", raised=scene.here, inside=inside)
    for name, it, _ in scene.named_in(statement_at(scene.here))[:4]:
        of = it._base if not it.is_leaf and it._base is not None and scene.name(it._base) else it
        whole = it.is_leaf and (it._base is None or it._base.numel() == it.numel())
        made = (scene.log.made(it) if whole else scene.log.node(it.grad_fn)).site
        flag, viewed = "requires" if it.requires_grad else "does not require", scene.names([of] * (of is not it))
        meant = it.requires_grad or " requires grad" not in scene.message
        if meant and not (said := describe(it)).startswith("<"):  # inside of a transform
            kind = "a parameter" if isinstance(of, torch.nn.Parameter) else "a leaf" if of.is_leaf else "the result"
            told = "`{name}` is {said}[, made in {made:at}][, a view of {viewed}], {kind}[ of `{op}`] that {flag} grad."
            words = {"name": name, "said": said, "viewed": viewed, "kind": kind, "flag": flag}
            op = spoken(of.grad_fn.name()) if of.grad_fn is not None else ""
            reason.tell(told, made=made if made != scene.here else None, op=op, **words)
    reason.happened = [" ".join(reason.happened)]
    found, role = scene.in_hand(page.about) if page.about else [], "made" if page.about == "tensor" else "defined"
    copied = any(one is own for one in scene.in_torch("x")[:1] for own in scene.in_torch("self")[-1:])
    verb = " is one of" if len(found) > 1 else ", the whole of what was handed over, is" if copied else " is"
    said = f"[The {{about}} in question{verb} {{names}}[, {role} in {{{role}}}][, and {{nothing}}].]"
    sites = [site for _, site in found if site.file]
    nothing = "returns nothing" if page.about == "backward" and any(map(returns_nothing, sites)) else ""
    reason.tell(said, about=page.about, names=[name for name, _ in found], nothing=nothing, **{role: sites})
    if page.facts and (fact := re.search(page.facts[0], scene.message)) is not None:
        reason.happened.append(fact.expand(page.facts[1]))
    known = " ".join((*reason.happened, scene.message))
    causes = [one for one in page.causes if one.says and re.search(one.says, known)]
    for one in causes[:1] or page.causes * (len(page.causes) == 1):
        reason.cause = one.key
        reason.happened.append(one.cause)
    return reason


def _not_in_graph(scene: Scene) -> Reason:
    """Which of the tensors the loss does not lead to, what comes from them, and which ones like them it leads to."""
    page, reached = cast(ErrorPage, page_for(scene.message)).key, {id(one) for one in (*scene.nodes, *scene.leaves)}
    reason = Reason(page)
    missing = {id(end): (end, one) for one in scene.asked if id(end := one.grad_fn or one) not in reached}
    lost, own = [one for _, one in missing.values()], {*map(id, scene.asked)}
    alike = scene.names(one for one in scene.leaves if id(one) not in own and any(one.shape == it.shape for it in lost))
    ways = ((name, iter(nodes_behind(it))) for name, it, _ in scene.named[:50])  # whose own node is left out
    after = [name for name, it in ways if next(it, None) and any(id(getattr(n, "variable", n)) in missing for n in it)]
    said = "{raised}, raised it.[ Not in the graph: {names}[, nor what is computed from that, {after}].]"
    reason.tell(said, raised=scene.here, names=scene.names(lost), after=after)
    reason.tell("[Of the same shape, and in it: {alike}.]", alike=alike)
    mine = scene.log.numbers_of(lost)  # nothing without a watch
    if page == "differentiated_not_flagged":
        bare = [type(one) for one in lost if not one.requires_grad]
        reason.cause = "frozen_parameter" if torch.nn.Parameter in bare else "input_not_flagged" if bare else ""
    elif alike:
        reason.cause = "other_object"
    elif mine and not (tell_cuts(reason, scene, [*scene.roots], lost) or tell_places(reason, scene.log, lost[0])):
        reason.cause = "really_unused"
    return reason


def _scalar(scene: Scene) -> Reason:
    """Whether a loss was told to stay one number for each sample."""
    reason, node = _by_page(scene), scene.log.node
    layers = [name for name, one in scene.objects(torch.nn.Module) if getattr(one, "reduction", "") == "none"]
    told = [node(one).site for one in scene.nodes[:20] if getattr(one, "_saved_reduction", None) == 0]
    reason.cause = "unreduced_loss" if layers or told else "forgotten_mean"
    said = '[{layers} has `reduction="none"`: a loss for each sample.][`reduction="none"` is in {asked_for:at}.]'
    reason.tell(said, layers=layers, asked_for=told[0] if told and not layers else None)
    return reason


def _gradient(scene: Scene) -> Reason:
    """Why the ``.grad`` that a line reads is None."""
    read = [one.tensor for one in scene.named_in(statement_at(scene.here))]
    empty = [it for it in read if not (it.is_leaf or it.retains_grad) or it.grad is None]
    reason = Silence(scene, empty[0], None).answer() if empty else _by_page(scene)
    reason.page = "grad_is_none"
    reason.tell("{raised}, reads its `.grad`.", raised=scene.here)
    return reason


_SEARCHES: dict[str, Callable[[Scene], Reason]] = {
    "modified_in_place": modified, "second_backward": second, "does_not_require_grad": no_history,
    "nan_in_backward": nan_in_backward, "unused_in_graph": _not_in_graph, "differentiated_not_flagged": _not_in_graph,
    "not_a_scalar": _scalar, "grad_is_none": _gradient,
}  # fmt: skip
"""Who answers, by the page's key."""
