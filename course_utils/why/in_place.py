"""Why backward says that a tensor was modified in place (``modified``)."""

import ast
from collections.abc import Sequence
from typing import Any

import torch

from course_utils.base.user_code import Site
from course_utils.graph.report import operation_name
from course_utils.why.edits import ABOVE, Edit, edits_in
from course_utils.why.log import Edited, Log
from course_utils.why.reason import LOOK, Draft, begin, listed, place
from course_utils.why.scene import Scene
from course_utils.why.second import carried_over
from course_utils.why.source import (
    Statement,
    bindings,
    is_op,
    is_view,
    name_in,
    op_of,
    runs,
    statement_at,
    statements,
    value_of,
)
from course_utils.why.suspects import VIEWS, Message, Stale, likely, read_message, stale


def modified(scene: Scene, log: Log | None) -> Draft:
    """Which tensor was edited, the line that made it, the line that edited it, and what to write instead."""
    draft, message = Draft("modified_in_place"), read_message(scene.message)
    found = stale(scene, message)
    names = [one.name for one in scene.names_on(found.tensor.untyped_storage())] if found is not None else []
    seen = _seen_edits(log, found, message)
    if seen:
        sites = list(dict.fromkeys(edit.site for edit in seen))
        chosen = [edit for site in sites[:1] for edit in _edits_at(scene, site, seen[0], names)]
    else:
        chosen = likely(scene, found, message, names)
        sites = list(dict.fromkeys(edit.statement.site for edit in chosen))
    edit = chosen[0] if chosen else None
    maker = _maker(scene, log, found, message, names, edit)
    saver = _saver(scene, log, found)
    name = _best_name(names, edit)
    _tell(draft, scene, message, found, name, maker, saver, sites[:1] if seen else sites, edit)
    draft.cause = _cause(scene, edit, sites)
    _cure(draft, scene, edit, sites, name)
    return draft


def _seen_edits(log: Log | None, found: Stale | None, message: Message) -> list[Edited]:
    """The edits since the tensor was saved, as a watch has seen them."""
    if log is None or found is None:
        return []
    return [edit for edit in log.edits(found.tensor) if edit.version > message.expected and edit.site.file]


def _edits_at(scene: Scene, site: Site, seen: Edited, names: Sequence[str]) -> list[Edit]:
    """The edits in the source of a line at which one was seen, what is named like the tensor first."""
    statement = statement_at(site)
    found = edits_in(statement, scene.inplace) if statement is not None else []
    if not found and statement is not None:  # a whole network is called, and one of its layers edits
        return [Edit(statement, "", "activation", (seen.name,), statement.node, layer=True)]
    return sorted(found, key=lambda edit: edit.name not in names)


def _maker(
    scene: Scene, log: Log | None, found: Stale | None, message: Message, names: Sequence[str], edit: Edit | None
) -> Site | None:  # fmt: skip
    """The line that made the tensor."""
    if log is not None and found is not None:
        source = found.tensor.grad_fn
        known = log.made(found.tensor) or (log.node(source) if source is not None else None)
        if known is not None and known.site.file:
            return known.site
    if edit is not None and edit.kind != "step" and edit.name:
        maker = op_of(message.maker) if message.maker else ""
        made = _made(edit.name, edit.statement.site)
        if maker in edit.ops:
            maker = ""
        fits = [one for one in made if maker and is_op(maker, value_of(one) or one.node, scene.layers)]
        if fits or made:
            return (fits or made[-1:])[0].site
    if message.maker:
        several = runs(op_of(message.maker), scene.files, scene.layers)
        return several[0].site if len(several) == 1 else None
    return None


def _made(name: str, site: Site) -> list[Statement]:
    """The statements that made what a name holds: of a view, also those that made what it is a view of."""
    found: list[Statement] = []
    for one in bindings(name, site)[:1]:
        found.append(one)
        value = value_of(one)
        base = name_in(value) if is_view(value) else ""
        if base and base != name:
            found += _made(base, one.site)
    return found


def _saver(scene: Scene, log: Log | None, found: Stale | None) -> Site | None:
    """The line of the operation that had saved the tensor."""
    if found is None:
        return None
    known = log.node(found.node) if log is not None else None
    if known is not None:
        return known.site
    several = runs(op_of(found.node.name()), scene.files, scene.layers)
    return several[0].site if len(several) == 1 else None


def _best_name(names: Sequence[str], edit: Edit | None) -> str:
    if edit is not None and edit.name and edit.kind != "step":
        return edit.name
    return names[0] if names else ""


def _tell(
    draft: Draft, scene: Scene, message: Message, found: Stale | None, name: str, maker: Site | None,
    saver: Site | None, sites: Sequence[Site], edit: Edit | None,
) -> None:  # fmt: skip
    shape = f"a tensor of shape {list(message.shape)}"
    made = operation_name(message.maker).lower() if message.maker else ""
    if made in VIEWS or (edit is not None and made in edit.ops):
        made = ""  # a view that was made on the way, or the edit itself
    subject = f"`{name}`" if name else shape[0].upper() + shape[1:]
    by = f", made by `{made}`" if made else ""
    by = by or ", made" * (maker is not None)
    first = f"{subject}{by} in {place(maker)}" if maker is not None else f"{subject}{by}"
    if found is not None:
        keeper = operation_name(found.node.name()).lower()
        where = f" in {place(saver)}" if saver is not None and saver != maker else ""
        first += f", was saved for backward by `{keeper}`{where}"
    else:
        first += ", was saved for backward"
    text = f", `{sites[0].source}`" if len(sites) == 1 else ""
    second = f"Its memory was edited in {listed(sites)}{text}." if sites else "Its memory was edited since."
    draft.say(f"{first}.", second, f"{begin(place(scene.back))} is the backward that needed it as it was.")
    draft.point("made", maker)
    if saver != maker:
        draft.point("saved", saver)
    for site in sites:
        draft.point("edited", site)
    draft.point("needed", scene.back)
    if len(sites) > 1:
        draft.unsure = f"Which of {len(sites)} lines it was: each edits a tensor like it. {LOOK}"
    elif not sites:
        draft.unsure = f"Which line edited it: no line of yours looks like it. {LOOK}"


def _cause(scene: Scene, edit: Edit | None, sites: Sequence[Site]) -> str:
    if edit is None:
        return "inplace_operation"
    if edit.kind == "step":
        here = scene.back
        same = edit.statement.site.function == here.function and edit.statement.site.file == here.file
        return "kept_graph" if same and edit.line > here.line else "optimizer_step"
    return {"index": "indexed_assignment", "activation": "inplace_activation"}.get(edit.kind, "inplace_operation")


def _cure(draft: Draft, scene: Scene, edit: Edit | None, sites: Sequence[Site], name: str) -> None:
    """The change of one line, where one is enough."""
    if edit is None or len(sites) != 1:
        return
    if draft.cause == "kept_graph":
        carried = _carried(scene)
        if carried:
            keeps = ", and take `retain_graph=True` away" * ("retain_graph" in scene.back.source)
            draft.cure = f"`{carried}` leads back into the step before. Cut it where a step begins{keeps}."
            draft.code = f"{carried} = {carried}.detach()"
        return
    if draft.cause == "optimizer_step":
        draft.cure = (
            f"Move `{edit.statement.site.source}` (line {edit.line}) below the last backward that needs these weights"
            f" (line {scene.back.line}), or run the forward pass again after it. Where the second loss should not reach"
            " these weights, hand it a detached input."
        )
        return
    if edit.statement.switched_off and scene.name(_tensor_of(scene, name)):
        draft.cure = f"Edit `{name}` after backward, not between the forward pass and it."
        return
    if edit.kind == "activation" and not edit.code_of_its_own:
        _cure_layer(draft, scene)
        return
    copies = any(is_view(value_of(one)) for one in bindings(edit.name, edit.statement.site)[:1])
    draft.code = f"{edit.name} = {edit.name}.clone(){ABOVE}" if copies and edit.kind == "operation" else edit.mended
    if draft.code.endswith(ABOVE):
        draft.code = draft.code.replace(ABOVE, f"  # above line {edit.line}")
        draft.cure = "Edit a copy, or collect the pieces in a list and join them: `torch.stack(pieces)`."
    elif draft.code:
        draft.cure = f"Make a new tensor in line {edit.line}."


def _cure_layer(draft: Draft, scene: Scene) -> None:
    """A layer edits: what is changed is the line that makes it."""
    for one in (one for file in scene.files for one in statements(file)):
        for call in one.inside:
            if isinstance(call, ast.Call) and any(
                word.arg == "inplace" and getattr(word.value, "value", None) is True for word in call.keywords
            ):
                plain = ast.Call(call.func, call.args, [word for word in call.keywords if word.arg != "inplace"])
                site = Site(one.site.file, call.lineno, one.site.function)
                draft.point("asked for", site)
                draft.cure = f"Leave `inplace=True` out of line {site.line}."
                draft.code = draft.code or site.source.replace(ast.unparse(call), ast.unparse(plain))


def _tensor_of(scene: Scene, name: str) -> Any:
    value = scene.value(name)
    return value if isinstance(value, torch.nn.Parameter) else None


def _carried(scene: Scene) -> str:
    """The variable that a loop hands from one round to the next."""
    return next(iter(carried_over(scene)), "")
