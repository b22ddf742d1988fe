"""Drills on hooks: which of them fires, and what does it see? (``write``)

A number goes through two modules, and hooks note in ``seen`` what they see of it, or of its gradient.
"""

from __future__ import annotations

from course_utils.drills.hook_page import NOTHING, Hook, HookPage, choices, reason, shown
from course_utils.drills.programs import Draw, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer

Found = tuple[Hook, str, Reason]


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = HookPage(draw, level)
        found, values = (_calls, _changes, _gradients)[level - 1](page)
        if page.fits and page.smooth and len({answer for _, answer, _ in found}) > 1:
            return _finish(page, found, values)


def _finish(page: HookPage, found: list[Found], values: list[float]) -> Program:
    offered = [choices(answer, values, page.draw) for _, answer, _ in found]
    names, questions = page.names(), []
    for (hook, answer, why), texts in zip(found, offered, strict=True):
        then = f"`{hook.key}` is never noted" if answer == NOTHING else f"`{hook.key}` is {answer}"
        text = named(explain_answer(why, then), names)
        questions.append(Question(hook.key, answer, why.line, why.rule, text, texts))
    return Program(tuple(named(row, names) for row in page.lines), tuple(questions))


def _module(page: HookPage, hook: Hook) -> str:
    return "`net`" if hook.owner == -1 else f"`{page.stages[hook.owner or 0]}`"


# Level 1: which fire.


def _calls(page: HookPage) -> tuple[list[Found], list[float]]:
    """Hooks of modules and of the net, removed or too late, and ways to run the net that pass them by."""
    draw = page.draw
    page.build(net=True)
    number = page.name()
    page.write(f"{number} = torch.tensor([{page.pick_start()}])")
    removed, late = draw.chance(0.4), draw.chance(0.3)
    for index in range(3 - late):
        page.forward_hook(draw.choice((-1, 0, 1)), draw.chance(0.4), handle=removed and index == 0)
    if removed:
        page.remove(page.hooks[0])
    first, second = page.stages
    way = draw.weighted({"net": 3, "net.forward": 2, "modules": 1.5, "forward": 2})
    call, passed = {
        "net": (f"net({number})", set[int]()),
        "net.forward": (f"net.forward({number})", {-1}),
        "modules": (f"{second}({first}({number}))", {-1}),
        "forward": (f"{second}({first}.forward({number}))", {-1, 0}),
    }[way]
    line = page.write(f"result = {call}")
    if late:
        page.forward_hook(draw.choice((-1, 0, 1)), draw.chance(0.4), after=True)
    found = []
    for hook in page.hooks:
        module = _module(page, hook)
        if hook.removed:
            found.append((hook, NOTHING, reason(hook.removed, "removed", key=hook.key)))
        elif hook.after:
            found.append((hook, NOTHING, reason(hook.line, "registered late", run=str(line))))
        elif hook.owner in passed:
            found.append((hook, NOTHING, reason(line, "not called", module=module)))
        else:
            found.append((hook, shown(page.seen(hook)), _looks(page, hook)))
    # Where two things keep a hook from firing, neither of them decides alone.
    if any((hook.removed or hook.after) and hook.owner in passed for hook in page.hooks):
        return [], []
    return found, page.values()


def _looks(page: HookPage, hook: Hook) -> Reason:
    is_pre = hook.place == 0 or (hook.owner is not None and hook.place == hook.owner)
    rule = "sees what goes in" if is_pre else "sees what comes out"
    return reason(hook.line, rule, module=_module(page, hook))


# Level 2: what they see, where others change it.


def _changes(page: HookPage) -> tuple[list[Found], list[float]]:
    """A hook that changes what passes, or a module that edits what a hook has noted."""
    draw = page.draw
    edits = draw.chance(0.35)
    page.build(net=True, edits=edits)
    number = page.name()
    page.write(f"{number} = torch.tensor([{page.pick_start()}])")
    turn = draw.below(3)
    change = None
    for index in range(3):
        if index == turn and not edits:
            change = page.forward_change(draw.below(2), draw.chance(0.5), draw.choice((3, 5, 10)))
        page.forward_hook(draw.choice((-1, 0, 1)), draw.chance(0.4))
    if draw.chance(0.4):
        with page.block("with torch.no_grad():"):
            page.write(f"net({number})")
    else:
        page.write(f"net({number})")
    found = []
    for hook in page.hooks:
        if hook.key:
            seen = page.seen(hook)
            if edits and hook.place == 1 and seen != max(seen, 0.0):
                why = reason(page.made_line, "edited afterwards", module=f"`{page.stages[1]}`")
                found.append((hook, shown(max(seen, 0.0)), why))
            elif change is not None and seen != page.seen(hook, without=change):
                at = ("what goes into", "what comes out of")[change.place > (change.owner or 0)]
                where = f"{at} `{page.stages[change.owner or 0]}`"
                found.append((hook, shown(seen), reason(change.line, "changed", where=where)))
            else:
                found.append((hook, shown(seen), _looks(page, hook)))
    if not any(why.rule in ("changed", "edited afterwards") for _, _, why in found):
        return [], []
    return found, [*page.values(), *page.values(without=change)]


# Level 3: gradients.


def _gradients(page: HookPage) -> tuple[list[Found], list[float]]:
    """Hooks of tensors and of modules in the backward pass, beside one of the forward pass."""
    draw = page.draw
    page.build(net=False)
    first, second = page.stages
    order = draw.sample(("module", "forward"), 1 + draw.chance(0.4))
    if "module" in order:
        owner = draw.below(2)
        key = page.next_key()
        text = f"{page.stages[owner]}.register_full_backward_pre_hook(lambda _, grads: seen.update({key}=grads[0]))"
        page.keyed(text, Hook(key, owner + 1, owner, 0))
    if "forward" in order:
        page.forward_hook(draw.below(2), False)
    forward = page.hooks[-1] if "forward" in order else None
    tensors = [page.name(), page.name(), page.name()]
    page.write(f"{tensors[0]} = torch.tensor([{page.pick_start()}], requires_grad=True)")
    page.write(f"{tensors[1]} = {first}({tensors[0]})")
    page.write(f"{tensors[2]} = {second}({tensors[1]})")
    change = None
    turn = draw.below(3)
    while len([hook for hook in page.hooks if hook.key]) < 4 or change is None:
        if change is None and len(page.hooks) - len(order) >= turn % 2:
            place, factor = draw.below(3), draw.choice((-1, 3, 5, 10))
            text = f"{tensors[place]}.register_hook(lambda grad: grad * {factor})"
            change = page.keyed(text, Hook("", place, None, 0, float(factor)))
        elif not any(hook.leaf for hook in page.hooks) and draw.chance(0.4):
            key = page.next_key()
            text = f"{tensors[0]}.register_post_accumulate_grad_hook(lambda t: seen.update({key}=t.grad))"
            page.keyed(text, Hook(key, 0, None, 0, leaf=True))
        else:
            key, place = page.next_key(), draw.below(3)
            page.keyed(
                f"{tensors[place]}.register_hook(lambda grad: seen.update({key}=grad))", Hook(key, place, None, 0)
            )
    scale = 2 + draw.below(6)
    stop = draw.weighted({-1: 3.0, 0: 2.0, 1: 1.5})
    if stop < 0:
        line = page.write(f"({scale} * {tensors[2]}).backward()")
    else:
        line = page.write(f"torch.autograd.grad({scale} * {tensors[2]}, {tensors[stop]})")
    found = []
    at = page.values()
    for hook in page.hooks:
        if not hook.key:
            continue
        if hook is forward:
            found.append((hook, shown(at[hook.place]), _looks(page, hook)))
        elif stop >= 0 and (hook.leaf or hook.place < stop or (hook.owner is not None and hook.place == stop)):
            rule = "no gradient kept" if hook.leaf and stop == 0 else "not on the way"
            found.append((hook, NOTHING, reason(line, rule, tensor=f"`{tensors[max(stop, 0)]}`")))
        else:
            seen, plain = (_gradient(page, hook, float(scale), without) for without in (None, change))
            if seen != plain:
                found.append(
                    (hook, shown(seen), reason(change.line, "gradient changed", tensor=f"`{tensors[change.place]}`"))
                )
            else:
                rule = "sees the kept gradient" if hook.leaf else "sees the gradient"
                found.append((hook, shown(seen), reason(hook.line, rule, tensor=f"`{tensors[hook.place]}`")))
    every = [_gradient(page, hook, float(scale), without) for hook in page.hooks for without in (None, change)]
    return found, [*every, *at]


def _gradient(page: HookPage, hook: Hook, scale: float, without: Hook | None) -> float:
    """The gradient that a hook sees: it comes from the last place, and each place's hooks run in their order."""
    points = [page.start]
    for module in page.modules:
        points.append(module.value(points[-1]))
    gradient = scale
    for place in (2, 1, 0):
        if place < 2:
            gradient *= page.modules[place].slope(points[place])
        for other in page.hooks:
            last = hook.leaf or hook.owner is not None  # these come when the tensor's own hooks have run
            runs = other.owner is None and other.place == place and other is not without
            if runs and (place > hook.place or last or other.line < hook.line):
                gradient *= other.factor
        if place == hook.place:
            break
    return gradient
