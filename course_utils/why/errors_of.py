"""Why other errors of autograd were raised: a loss without a history, a loss of many numbers, an edited leaf, a
gradient that DDP waits for (``no_history``, ``not_a_scalar``, ``leaf_edited``, ``awaited``), and any error of which the
index has a page (``by_page``).
"""

import ast
import re
from collections.abc import Sequence

import torch

from course_utils.base.text import describe
from course_utils.base.user_code import Site
from course_utils.why.edits import Edit, edits_in
from course_utils.why.history import CUTS, Ending, ending
from course_utils.why.log import Log
from course_utils.why.pages import ErrorPage, page_for
from course_utils.why.reason import Draft, begin, place
from course_utils.why.scene import Scene
from course_utils.why.second import loss_name
from course_utils.why.source import bindings, called, names_read, statement_at, value_of

_CAUSES = {
    "mode": "no_grad_mode", "reentrant": "reentrant_checkpoint", "dtype": "not_differentiable",
    "operation": "not_differentiable", "frozen": "frozen", "unflagged": "not_flagged",
}  # fmt: skip


def no_history(scene: Scene, log: Log | None) -> Draft:
    """Where the loss lost its history."""
    draft = Draft("does_not_require_grad")
    loss = loss_name(scene)
    root = next((one for one in scene.roots if not one.requires_grad), None)
    found = ending(scene, log, root, loss, scene.here)
    draft.cause = _CAUSES.get(found.how, "cut_history")
    tell_ending(draft, found, f"`{loss}`" if loss else "The loss")
    draft.happened[-1] += f" {begin(place(scene.here))} calls backward on what is left."
    draft.point("needed", scene.here)
    _cure_ending(draft, found)
    return draft


def tell_ending(draft: Draft, found: Ending, subject: str) -> None:
    """Says where a history ends, and points there."""
    if found.how in CUTS:
        where = f" in {place(found.site)}" if found.site is not None else ""
        text = f", `{found.text}`" if found.text else ""
        off = ""
        if found.switched is not None and found.switched != found.site:
            off = f" It was switched off in {place(found.switched)}, `{found.switched.source}`."
        draft.say(f"{subject} has no history: it was cut{where}{text}. There, {CUTS[found.how]}.{off}")
    elif found.how == "frozen":
        where = f" {begin(place(found.site))} lowers the flags." if found.site is not None else ""
        draft.say(f"{subject} has no history: every parameter of `{found.name}` has `requires_grad=False`.{where}")
    else:
        where = f" `{found.name}` comes from {place(found.site)}." if found.site is not None and found.name else ""
        draft.say(f"{subject} has no history: nothing that it was computed from requires grad.{where}")
    draft.point("cut", found.site)
    draft.point("switched off", found.switched)
    if found.also:
        draft.unsure = "Also " + " and ".join(f"{place(site)}, `{site.source}`" for site in found.also) + " may cut it."


def _cure_ending(draft: Draft, found: Ending) -> None:
    if found.site is None:
        return
    source = found.site.source
    if found.how in ("detach", "data"):
        draft.cure = f"Compute the loss with the tensor itself in line {found.site.line}."
        word = ".detach()" if found.how == "detach" else ".data"
        draft.code = source.replace(word, "", 1) if word in source else ""
    elif found.how == "mode":
        where = found.switched if found.switched is not None else found.site
        draft.cure = f"Take line {found.site.line} out of what is switched off in line {where.line}, `{where.source}`."
    elif found.how == "copy":
        copying = next((node for node in _calls(found.site) if called(node) in ("tensor", "as_tensor", "Tensor")), None)
        if copying is not None and copying.args:
            first = copying.args[0]
            draft.cure = "Compute with the tensors themselves: join several with `torch.stack`."
            several = isinstance(first, (ast.List, ast.ListComp)) or "loss" in ast.unparse(first)
            new = f"torch.stack({ast.unparse(first)})" if several else ast.unparse(first)
            draft.code = source.replace(ast.unparse(copying), new)
    elif found.how == "number":
        draft.cure = f"Leave the number out of line {found.site.line}: `.item()` is for the log."
        draft.code = source.replace(".item()", "") if ".item()" in source else ""
    elif found.how == "gradient":
        draft.cure = f"Let line {found.site.line} record how the gradient is computed."
        recorded = f"{found.text[:-1]}, create_graph=True)"
        draft.code = source.replace(found.text, recorded) if found.text in source else ""
    elif found.how == "unflagged" and found.name:
        made = any(word in source for word in ("ones(", "zeros(", "randn(", "rand(", "tensor(", "full("))
        draft.cure = "Raise the flag of what is to be trained, before it is used."
        draft.code = (
            f"{source[:-1]}, requires_grad=True)" if made and source.endswith(")") else f"{found.name}.requires_grad_()"
        )
    elif found.how == "frozen":
        draft.cure = f"Unfreeze what is to be trained of `{found.name}`, or do not freeze it in line {found.site.line}."


def _calls(site: Site) -> list[ast.Call]:
    statement = statement_at(site)
    return [node for node in (statement.inside if statement is not None else ()) if isinstance(node, ast.Call)]


def not_a_scalar(scene: Scene, log: Log | None) -> Draft:
    """Which tensor has more than one number, and the line that left it so."""
    draft, loss = Draft("not_a_scalar"), loss_name(scene)
    root = next((one for one in scene.roots if one.numel() != 1), None)
    made = log.node(root.grad_fn) if log is not None and root is not None and root.grad_fn is not None else None
    bound = bindings(loss, scene.here) if loss else []
    line = bound[0].site if bound else made.site if made is not None else None
    unreduced = _unreduced(scene, loss)
    whose = f"`{loss}`" if loss else "What backward was called on"
    shape = f", {describe(root)}" if root is not None else ""
    where = f", made in {place(line)}" if line is not None else ""
    draft.cause = "unreduced_loss" if unreduced is not None else "forgotten_mean"
    draft.say(f"{whose}{where}{shape}, has more than one number. {begin(place(scene.here))} calls backward on it.")
    if unreduced is not None and unreduced != line:
        draft.say(f"{begin(place(unreduced))} asks for a loss of each sample: `{unreduced.source}`.")
    draft.point("made", line)
    draft.point("asked for", unreduced if unreduced != line else None)
    draft.point("needed", scene.here)
    source = scene.here.source
    back = f"{loss}.backward("
    draft.cure = "Take the mean, once weights or a mask are in it; or the sum."
    draft.code = source.replace(back, f"{loss}.mean().backward(") if loss and back in source else ""
    if any(isinstance(one, torch.nn.DataParallel) for _, one in scene.objects(torch.nn.Module)):
        draft.cause = "data_parallel"
    return draft


def _unreduced(scene: Scene, loss: str) -> Site | None:
    """The line that says ``reduction="none"``."""
    seen: set[str] = set()
    waiting = [(loss, scene.here)]
    while waiting:
        name, site = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for one in bindings(name, site)[:2]:
            for node in one.inside:
                value = node.value if isinstance(node, ast.keyword) and node.arg in ("reduction", "reduce") else None
                if getattr(value, "value", "") in ("none", False):
                    return one.site
                if isinstance(node, ast.Call):
                    waiting.append((ast.unparse(node.func), one.site))
                    layer = scene.value(ast.unparse(node.func))
                    if getattr(layer, "reduction", "") == "none":
                        return next((two.site for two in bindings(ast.unparse(node.func), one.site)), one.site)
            bound = value_of(one)
            waiting += [(read, one.site) for read in (names_read(bound) if bound is not None else ())]
    return None


def leaf_edited(scene: Scene, log: Log | None) -> Draft:
    """Which leaf is edited, and how to edit it."""
    draft, here = Draft("leaf_in_place"), scene.here
    statement = statement_at(here)
    found = edits_in(statement, scene.inplace) if statement is not None else []
    flagged = [one for one in found if _is_flagged(scene, one.name)] or found
    edit: Edit | None = flagged[0] if flagged else None
    name = edit.name if edit is not None else ""
    leaf = scene.value(name) if name else None
    made = bindings(name, here) if name else []
    line = next((one.site for one in made if one.site != here), None)
    own = f"`{name}`" if name else "The tensor"
    where = f", made in {place(line)}," if line is not None else ""
    shape = f" ({describe(leaf)})" if isinstance(leaf, torch.Tensor) and leaf.dim() else ""
    draft.say(
        f"{own}{shape}{where} is a leaf that requires grad. {begin(place(here))} edits it, `{here.source}`, while"
        " autograd is recording."
    )
    draft.point("made", line)
    draft.point("edited", here)
    if edit is not None and edit.kind == "activation":
        draft.cause = "inplace_first_layer"
        draft.code = edit.mended
    elif ".grad" in here.source or (edit is not None and _uses_gradient(edit)):
        draft.cause = "manual_step"
    elif line is not None and any(
        isinstance(node, ast.keyword) and node.arg == "requires_grad" for node in _inside(line)
    ):
        draft.cause = "filled_after_flag"
        draft.cure = f"Fill it first, and raise the flag below line {here.line}; or edit it where nothing is recorded."
    else:
        draft.cause = "own_initialisation"
    if draft.cause != "inplace_first_layer":
        draft.code = f"with torch.no_grad(): {here.source}"
    return draft


def _inside(site: Site) -> Sequence[ast.AST]:
    statement = statement_at(site)
    return statement.inside if statement is not None else ()


def _is_flagged(scene: Scene, name: str) -> bool:
    value = scene.value(name)
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf


def _uses_gradient(edit: Edit) -> bool:
    """Whether the edit is worked out from a gradient: by a name such as "grad_w"."""
    return any("grad" in read.lower() for node in edit.statement.inside for read in names_read(node)[:6])


def awaited(scene: Scene, log: Log | None) -> Draft:
    """Which parameters got no gradient, where DDP says their numbers."""
    page = page_for(scene.message)
    assert page is not None
    draft = by_page(scene, page)
    numbers = re.search(r"for rank \d+: ([\d ]+)", scene.message)
    wrapped = [model for _, model in scene.objects(torch.nn.parallel.DistributedDataParallel)]
    if numbers and len(wrapped) == 1:
        named = torch.nn.Module.named_parameters(wrapped[0].module)
        waiting = dict(enumerate(name for name, parameter in named if parameter.requires_grad))
        missing = [f"`{waiting[int(number)]}`" for number in numbers[1].split() if int(number) in waiting]
        draft.say(f"No gradient came for {', '.join(missing)}." if missing else "")
    return draft


def by_page(scene: Scene, page: ErrorPage) -> Draft:
    """What can be said of any error that has a page: the line, and what the tensors in it are."""
    draft, here = Draft(page.key, page.causes[0].key), scene.here
    expression = scene.frames[0].expression if scene.frames else None
    said = [f"`{name}` is {_told(value)}" for name in (names_read(expression) if expression is not None else ())
            if isinstance(value := scene.value(name), torch.Tensor)]  # fmt: skip
    draft.say(f"{begin(place(here))}, `{here.source}`, raised it." if here.file else "", page.causes[0].cause)
    draft.say("; ".join(said[:4]) + "." if said else "")
    draft.point("raised", here)
    if len(page.causes) > 1:
        draft.unsure = "There are other causes: " + " ".join(one.cause for one in page.causes[1:3])
    return draft


def _told(tensor: torch.Tensor) -> str:
    flag = "requires grad" if tensor.requires_grad else "does not require grad"
    return f"{describe(tensor)}, {'a leaf' if tensor.is_leaf else 'a result'} that {flag}"
