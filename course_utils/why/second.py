"""Why backward says that a graph was gone through before (``second``), and what a loop hands on (``carried_over``)."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from course_utils.base.user_code import Site
from course_utils.graph.recorded import is_node
from course_utils.why.frames import Frame
from course_utils.why.log import Log
from course_utils.why.reason import Draft, place
from course_utils.why.scene import Scene
from course_utils.why.source import (
    Statement,
    bindings,
    called,
    is_backward,
    name_in,
    names_read,
    receiver,
    statement_at,
    statements,
    targets,
    value_of,
)


def second(scene: Scene, log: Log | None) -> Draft:
    """Which part of the graph is used up, the line that made it, the backward that freed it, and what to write."""
    draft = Draft("second_backward")
    loss = loss_name(scene)
    node, freed = _used_up(scene, log)
    first = freed.site if freed is not None else _other_backward(scene)
    made = log.node(node) if log is not None and node is not None else None
    shared, line = _shared(scene, loss, made.site if made is not None else None)
    draft.cause, name = _cause(scene, loss, first, shared, line, node)
    if name and name != shared:
        bound = bindings(name, scene.here)
        line = bound[0].site if bound else line
    name, loop = name or shared, _loop(scene)
    added = dict(_filled(statements(loop[0].site.file))).get(name) if loop is not None else None
    line = added.site if added is not None else line
    _tell(draft, scene, loss, name, line, first)
    _cure(draft, scene, loss, name, line, first, added)
    return draft


def _used_up(scene: Scene, log: Log | None) -> tuple[Any, Any]:
    """The latest node that an earlier pass has freed, and that pass; as a watch has seen it."""
    if log is None:
        return None, None
    freed = [(node, one) for node in scene.nodes if not hasattr(node, "variable") and (one := log.freed(node))]
    return max(freed, key=lambda pair: pair[0]._sequence_nr(), default=(None, None))


def backwards(scene: Scene) -> list[Statement]:
    """The statements that call backward, in the files that the error came through."""
    files = dict.fromkeys(frame.site.file for frame in scene.frames)
    return [one for file in files for one in statements(file) if any(is_backward(node) for node in one.inside)]


def goes_back(call: ast.AST) -> ast.expr:
    """What a call of backward goes back from: ``loss`` of ``loss.backward()``, and of ``autograd.grad(loss, w)``."""
    owner, arguments = receiver(call), getattr(call, "args", [])
    if called(call) == "backward" and owner is not None and not ast.unparse(owner).endswith("autograd"):
        return owner
    return arguments[0] if arguments else ast.Name("loss")


def loss_name(scene: Scene) -> str:
    """What the user calls the tensor that backward was called on."""
    for frame in scene.frames[:1]:
        call = frame.expression
        if isinstance(call, ast.Call) and is_backward(call):
            owner = receiver(call)
            if called(call) == "backward" and owner is not None and name_in(owner):
                return name_in(owner)
            if call.args:
                return next(iter(names_read(call.args[0])), "")
    return next((name for root in scene.roots if (name := scene.name(root))), "")


def _other_backward(scene: Scene) -> Site | None:
    """The backward that may have come before: another one in the same function, or the same one in a loop."""
    here = scene.here
    others = [one.site for one in backwards(scene) if (one.site.file, one.site.line) != (here.file, here.line)]
    same = [site for site in others if site.function == here.function] or others
    before = [site for site in same if site.line < here.line]
    if before:
        return before[-1]
    if _loop(scene) is not None or not same:
        return here
    return same[-1]


def _loop(scene: Scene) -> tuple[Frame, Statement, ast.stmt] | None:
    """The innermost loop that the error came through: its frame, the statement in it that was running, the loop."""
    for frame in scene.frames:
        statement = statement_at(frame.site)
        if statement is not None and statement.loops:
            return frame, statement, statement.loops[-1]
    return None


def _in(site: Site | None, loop: ast.stmt) -> bool:
    return site is not None and loop.lineno <= site.line <= (loop.end_lineno or 0)


def carried_over(scene: Scene) -> list[str]:
    """The variables and attributes that the loop hands from one round to the next: read before they are bound anew."""
    found = _loop(scene)
    names: list[str] = []
    if found is not None:
        frame, _, loop = found
        body = [one for one in statements(frame.site.file) if _in(one.site, loop) and one.node is not loop]
        names += _read_before_bound(body) + [name for name, _ in _filled(body)]
    for file in dict.fromkeys(frame.site.file for frame in scene.frames):
        functions: dict[str, list[Statement]] = {}
        for one in statements(file):
            functions.setdefault(one.site.function, []).append(one)
        for body in functions.values():
            names += [name for name in _read_before_bound(body) if name.startswith("self.")]
    return [name for name in dict.fromkeys(names) if _may_have_history(scene, name)]


def _read_before_bound(body: list[Statement]) -> list[str]:
    bound: set[str] = set()
    early: set[str] = set()
    found: list[str] = []
    for one in body:
        value = value_of(one)
        if isinstance(one.node, ast.For):
            bound.update(targets(one))
            continue
        reads = set(names_read(value)) if value is not None else set()
        if isinstance(one.node, ast.AugAssign):
            reads |= set(targets(one))
        early |= reads - bound
        found += [name for name in targets(one) if name in early]
        if not _cuts(value):
            bound.update(targets(one))
    return found


def _filled(body: Sequence[Statement]) -> Iterator[tuple[str, Statement]]:
    """The lists that a body both adds to and reads, with the statement that adds: ``states.append(h)``."""
    values = [value for one in body if (value := value_of(one)) is not None and not _adds(value)]
    read = {name for value in values for name in names_read(value)}
    for one in body:
        value = value_of(one)
        owner = receiver(value) if value is not None and _adds(value) else None
        if owner is not None and name_in(owner) in read:
            yield name_in(owner), one


def _adds(value: ast.AST) -> bool:
    return called(value) in ("append", "appendleft")


def _cuts(value: ast.AST | None) -> bool:
    """Whether a value has no history: ``h.detach()``."""
    return value is not None and any(called(node) in ("detach", "item") for node in ast.walk(value))


def _may_have_history(scene: Scene, name: str) -> bool:
    """Whether a variable holds a tensor with a history; also where it is gone."""
    value = scene.value(name)
    if value is None:
        return True
    if isinstance(value, (tuple, list)):
        return any(isinstance(one, torch.Tensor) and one.grad_fn is not None for one in value)
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def _feeds(name: str, site: Site, seen: set[str] | None = None) -> Iterator[tuple[str, Statement]]:
    """The variables that one is computed from in its function, nearest first, with the statements that bind them."""
    seen = set() if seen is None else seen
    for one in bindings(name, site)[:3]:
        if name in seen:
            return
        seen.add(name)
        yield name, one
        value = value_of(one)
        for read in names_read(value) if value is not None else ():
            if read not in seen:
                yield from _feeds(read, one.site, seen)


def _shared(scene: Scene, loss: str, made: Site | None) -> tuple[str, Site | None]:
    """The variable that holds what both passes go through, and the line that made it."""
    nodes = {id(node) for node in scene.nodes}
    in_graph = [one for one in scene.named() if one.tensor.grad_fn is not None and id(one.tensor.grad_fn) in nodes]
    feeds = dict(_feeds(loss, scene.here)) if loss else {}
    first = _other_backward(scene)
    theirs: set[str] = set()
    if first is not None and first != scene.here:
        statement = statement_at(first)
        for node in statement.inside if statement is not None else ():
            if is_backward(node):
                theirs = {read for name in names_read(goes_back(node)) for read, _ in _feeds(name, first)}
    both = [name for name in feeds if name in theirs and _may_have_history(scene, name)]
    loop = _loop(scene)
    for name in both or ([one.name for one in in_graph] if loop is not None else []):
        site = feeds[name].site if name in feeds else next((one.site for one in bindings(name, scene.here)), None)
        if (both and made is None) or (loop is not None and site is not None and not _in(site, loop[2])):
            return name, site
    if made is not None and made.file:
        statement = statement_at(made)
        names = targets(statement) if statement is not None else []
        return (names[0] if names else ""), made
    return "", None


def _cause(scene: Scene, loss: str, first: Site | None, shared: str, line: Site | None, node: Any) -> tuple[str, str]:
    """The cause's key, and the variable that it is about where that is another one than what is shared."""
    here, loop, carried = scene.here, _loop(scene), carried_over(scene)
    bound = bindings(loss, here) if loss else []
    roots = [root.grad_fn for root in scene.roots]
    whole = node is not None and is_node(node) and any(node is root for root in roots)
    same = first is not None and (first.file, first.line) == (here.file, here.line)
    outside = loop is not None and loop[0].site.function == here.function and bool(bound)
    if outside and loop is not None and not any(_in(one.site, loop[2]) for one in bound) and (same or whole):
        return "made_outside_loop", loss
    if loop is not None and same:
        if loss in carried:
            return "summed_loss", loss
        if (
            line is not None
            and line.function == loop[0].site.function
            and not _in(line, loop[2])
            and shared not in carried
        ):
            if isinstance(loop[2], ast.For) and shared in names_read(loop[2].iter):
                return "shared_part", shared  # each round goes back from a piece of it
            return "made_outside_loop", shared
        if carried:
            return "kept_state", carried[0]
        return "kept_state" if line is not None and _in(line, loop[2]) else "made_outside_loop", shared
    other = _loss_at(first)
    if whole or (other and other == loss and not _rebound(loss, first, here)) or same:
        return "backward_twice", loss
    return "shared_part", shared


def _loss_at(site: Site | None) -> str:
    statement = statement_at(site) if site is not None else None
    for node in statement.inside if statement is not None else ():
        if is_backward(node):
            return name_in(goes_back(node))
    return ""


def _rebound(name: str, first: Site | None, here: Site) -> bool:
    return first is not None and any(first.line < one.site.line < here.line for one in bindings(name, here))


def _tell(draft: Draft, scene: Scene, loss: str, name: str, line: Site | None, first: Site | None) -> None:
    here, subject = scene.here, f"`{name}`" if name else "A part of the graph"
    made = f", made in {place(line)}" if line is not None and line.file else ""
    same = first is not None and (first.file, first.line) == (here.file, here.line)
    freed = (
        f"the backward in {place(first)}" + (", a round before" if same else "") if first is not None else "a backward"
    )
    used = {
        "kept_state": f"{subject}{made} in the step before, still has its history and goes into this step.",
        "summed_loss": f"{subject}, summed up{made.replace(', made', '')}, leads back into every step.",
        "made_outside_loop": f"{subject}{made} before the loop, is part of the graph in every round.",
        "shared_part": f"{subject}{made}, is part of both graphs.",
        "backward_twice": f"{subject}{made}, is gone back through twice.",
    }[draft.cause]  # fmt: skip
    back = f"`{loss}.backward()` in {place(here)}" if loss else place(here)
    draft.say(used, f"What its graph had saved was freed by {freed}; {back} comes to it again.")
    draft.point("made", line)
    draft.point("freed", first)
    draft.point("needed", here)


def _cure(
    draft: Draft, scene: Scene, loss: str, name: str, line: Site | None, first: Site | None, added: Statement | None
) -> None:
    loop = _loop(scene)
    if draft.cause == "kept_state" and added is not None:
        part = ast.unparse(call.args[0]) if isinstance(call := value_of(added), ast.Call) and call.args else ""
        draft.cure = f"Keep it without its history in line {added.site.line}."
        draft.code = added.site.source.replace(f"({part})", f"({part}.detach())") if part else ""
    elif draft.cause == "kept_state" and name in carried_over(scene):
        draft.cure = f"Cut `{name}` where a step begins or ends: its value goes on, its history does not."
        value = scene.value(name)
        several = isinstance(value, (tuple, list))
        draft.code = f"{name} = tuple(part.detach() for part in {name})" if several else f"{name} = {name}.detach()"
    elif draft.cause == "summed_loss":
        statement = statement_at(line) if line is not None else None
        value = value_of(statement) if statement is not None else None
        reads = [read for read in names_read(value) if read != name] if value is not None else []
        if reads:
            draft.cure = f"Call `{reads[0]}.backward()` in each step, and keep the sum for the log as a number."
            draft.code = f"{name} += {reads[0]}.item()"
    elif draft.cause == "made_outside_loop" and line is not None and line.file:
        draft.cure = f"Move line {line.line} into the loop, so that each round records it anew."
        draft.code = line.source
        if loop is not None and line.function != loop[0].site.function:
            draft.cure = f"Compute it where it is used, not in line {line.line}, so that each round records it anew."
    elif draft.cause == "shared_part" and first == scene.here:
        draft.cure = "Add up what the rounds compute, and go back once, after the loop."
    elif draft.cause == "shared_part" and first is not None:
        other = _loss_at(first)
        if other and loss and other != loss:
            draft.cure = "Add the two up and go back once. The gradient is the same."
            if name:
                draft.cure = (
                    "Add the two up and go back once; or, where the two passes train different networks, hand"
                    f" `{name}.detach()` to the first."
                )
            draft.code = f"({other} + {loss}).backward()"
    elif draft.cause == "backward_twice" and first is not None and first.file:
        draft.cure = f"Leave one of the two out, or run the forward pass again before line {scene.here.line}."
