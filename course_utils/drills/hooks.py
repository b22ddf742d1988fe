"""Drills on hooks: which of them fires, and what does it see? (``write``)

A number goes through two modules, and hooks note in ``seen`` what they see of it, or of its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from course_utils.drills.programs import MAKER, Answer, Draw, Page, Program, Refused
from course_utils.drills.run import execute

TASK = "What has each hook noted in `seen` when the last line has run?"
LESSONS = ("forward_hooks",)
MARKS = {2: r"args\[0\] \* |out \* |inplace", 3: r"lambda grad"}
NOTHING = "nothing"
_KEYS = ("first", "second", "third", "fourth")
# Modules that make a number of a number, with the places where their slope jumps.
_MODULES = {
    "nn.ReLU()": (0.0,),
    "nn.LeakyReLU(0.5)": (0.0,),
    "nn.LeakyReLU(2.0)": (0.0,),
    "nn.Hardtanh()": (-1.0, 1.0),
    "nn.ReLU6()": (0.0, 6.0),
    "nn.Threshold(1.5, 8.0)": (1.5,),
    "nn.Identity()": (),
}
_OUT, _IN = "register_forward_hook(lambda _, args, out: {})", "register_forward_pre_hook(lambda _, args: {})"


class Hooks(Page):
    """A program while it is written.

    Attributes:
        modules: the names of its modules, in the order in which the input passes them.
        kinks: for each module where its slope jumps.
        made: the line that makes them.
        keys: the keys under which hooks note what they see, each with what has the hook.
    """

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.keys: dict[str, str] = {}
        self.write("seen = {}")

    def build(self, net: bool, edits: bool = False) -> None:
        """The modules, and a net of them. ``edits``: the second one works in place."""
        # An identity hands on its very input: what is edited would be that, too, and its hooks would be the input's.
        plain = list(_MODULES)[:-1]
        texts = [self.draw.choice(plain if edits or not net else list(_MODULES))]
        texts.append("nn.ReLU(inplace=True)" if edits else self.draw.choice(plain))
        self.modules, self.kinks = [self.name(), self.name()], [_MODULES.get(text, (0.0,)) for text in texts]
        self.made = self.write(f"{', '.join(self.modules)} = {', '.join(texts)}")
        if net:
            self.write(f"net = nn.Sequential({', '.join(self.modules)})")

    def start(self, flag: str = "", name: str = "") -> str:
        """The input."""
        name = name or self.name()
        self.write(f"{name} = torch.tensor([{self.draw.choice((-1, 1)) * (2 + self.draw.below(14)) / 2}]{flag})")
        return name

    def values(self) -> list[float]:
        """The number at each place, were there no hooks."""
        at = [next(value for value in self.space.values() if isinstance(value, torch.Tensor)).detach().clone()]
        for module in self.modules:
            at.append(self.space[module].forward(at[-1].clone()))
        if any(value in kinks for value, kinks in zip(map(float, at), self.kinks, strict=False)):
            raise Refused("a module would have to say what its slope is where that jumps")
        return [float(value) for value in at]

    def note(self, of: str, hook: str, rule: str, fill: str) -> int:
        """A hook that notes what it sees. ``hook``: how it is registered; ``fill``: what it notes."""
        key = _KEYS[len(self.keys)]
        self.keys[key] = of
        line = self.write(f"{of}.{hook.format(f'seen.update({key}={fill})')}")
        self.effect(line, rule, "pass", key, rank=MAKER)
        return line

    def forward_hook(self, of: str, before: bool) -> int:
        """A hook that notes what goes into a module, or comes out of it."""
        if before:
            return self.note(of, _IN, f"A forward pre-hook of `{of}` runs before it, and sees its input", "args[0]")
        return self.note(of, _OUT, f"A forward hook of `{of}` runs when it has been called, and sees its result", "out")

    def end(self) -> Program:
        """The questions, each with the right number and some that a reader might come to who misses something."""
        base, plain = _read(self.lines), self.values()
        numbers = {_shown(number) for number in plain}
        for effect in self.effects:
            numbers |= set(self.tried(_read, effect).values())
        for key in self.keys:
            others = sorted((numbers | set(base.values())) - {base[key], NOTHING}, key=float)
            texts = {base[key], *self.draw.sample(others, min(3, len(others)))} - {NOTHING}
            choices = (*sorted(texts, key=float), NOTHING)
            says = lambda seen, key=key: f"`{key}` is never noted" if seen == NOTHING else f"`{key}` is {seen}"
            self.ask(key, "which number is noted under it?", says, choices)
        return self.finish(_read, least=len(self.keys))


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Hooks(draw)
    (_calls, _changes, _gradients)[level - 1](page)
    return page.end()


# Level 1: which fire.


def _calls(page: Hooks) -> None:
    """Hooks of modules and of the net, removed or too late, and ways to run the net that pass them by."""
    draw = page.draw
    page.build(net=True)
    x, owners = page.start(), ["net", *page.modules]
    removed, late = draw.chance(0.4), draw.chance(0.3)
    handle = page.name() if removed else ""
    for index in range(3 - late):
        page.forward_hook(draw.choice(owners), draw.chance(0.4))
        if removed and index == 0:
            page.lines[-1] = f"{handle} = {page.lines[-1]}"
    if removed:
        line = page.write(f"{handle}.remove()", run=False)
        page.effect(line, "`remove()` takes the hook of `first` away before the net runs", "pass", "first")
    f, g = page.modules
    calls = {f"net({x})": 3, f"net.forward({x})": 2, f"{g}({f}({x}))": 1.5, f"{g}({f}.forward({x}))": 2}
    run = page.write(f"result = {draw.weighted(calls)}")
    if late:
        line = page.forward_hook(draw.choice(owners), draw.chance(0.4))
        rule = f"Line {run} has run by then, and a hook sees only what comes later"
        first = {line: "pass", run: f"{page.lines[line - 1]}\n{page.lines[run - 1]}"}
        page.effect(line, rule, first, _KEYS[2], instead=f"With it before line {run}")
    for key, of in page.keys.items():
        rule = f"Hooks run when a module is called. This line does not call `{of}`: `forward` is a method, and knows of no hooks"
        page.effect(run, rule, f"result = net({x})", key, answers=(NOTHING,))


# Level 2: what they see, where others change it.


def _changes(page: Hooks) -> None:
    """A hook that changes what passes, or a module that edits what a hook has noted."""
    draw = page.draw
    edits = draw.chance(0.35)
    page.build(net=True, edits=edits)
    x, turn, (f, g) = page.start(), draw.below(3), page.modules
    for index in range(3):
        if index == turn and not edits:
            of, before, factor = draw.choice((f, g)), draw.chance(0.5), draw.choice((3, 5, 10))
            line = page.write(f"{of}.{_IN.format(f'args[0] * {factor}') if before else _OUT.format(f'out * {factor}')}")
            where = f"what {'goes into' if before else 'comes out of'} `{of}`"
            page.effect(line, f"What this hook returns takes the place of {where}, for all that comes after it")
        page.forward_hook(draw.choice(("net", f, g)), draw.chance(0.4))
    if edits:
        rule = f"What is noted is the tensor itself and no copy, and `{g}` edits it in place afterwards"
        page.effect(page.made, rule, page.lines[page.made - 1].replace("inplace=True", ""))
    with_block = draw.chance(0.4)
    page.write(f"with torch.no_grad():\n    net({x})" if with_block else f"net({x})")
    base = _read(page.lines)
    change = next(effect for effect in page.effects if not effect.about)
    if _read(change.without(page.lines)) == base:
        raise Refused("nothing that is noted is changed")


# Level 3: gradients.


def _gradients(page: Hooks) -> None:
    """Hooks of tensors and of modules in the backward pass, beside one of the forward pass."""
    draw = page.draw
    page.build(net=False)
    (f, g), sees = page.modules, "The hook sees the gradient of the result with respect to `{}`, as it comes there"
    tensors = [page.name(), page.name(), page.name()]
    for kind in draw.sample(("module", "forward"), 1 + draw.chance(0.4)):
        of = draw.choice((f, g))
        if kind == "forward":
            page.forward_hook(of, False)
        else:
            hook, result = "register_full_backward_pre_hook(lambda _, grads: {})", tensors[1 if of == f else 2]
            page.note(of, hook, sees.format(result), "grads[0]")
    others, turn, x = len(page.keys), draw.below(2), page.start(", requires_grad=True", tensors[0])
    page.write(f"{tensors[1]} = {f}({x})")
    page.write(f"{tensors[2]} = {g}({tensors[1]})")
    changed = kept = ""
    while len(page.keys) < 4 or not changed:
        at = draw.choice(tensors)
        if not changed and len(page.keys) - others >= turn:
            changed = f"What this hook returns takes the place of the gradient of `{at}`, for all that comes after it"
            page.effect(page.write(f"{at}.register_hook(lambda grad: grad * {draw.choice((-1, 3, 5, 10))})"), changed)
        elif not kept and draw.chance(0.4):
            kept, hook = _KEYS[len(page.keys)], "register_post_accumulate_grad_hook(lambda t: {})"
            page.note(
                x,
                hook,
                f"The hook runs when `.grad` of `{x}` has been filled, after all other hooks of `{x}`",
                "t.grad",
            )
        else:
            page.note(at, "register_hook(lambda grad: {})", sees.format(at), "grad")
    result, stop = f"{2 + draw.below(6)} * {tensors[2]}", draw.weighted({"": 3.0, tensors[0]: 2.0, tensors[1]: 1.5})
    if not stop:
        page.write(f"({result}).backward()")
        return
    line = page.write(f"torch.autograd.grad({result}, {stop})")
    for key in page.keys:
        rule = f"`torch.autograd.grad` goes back as far as `{stop}` and no further"
        if (stop, key) == (x, kept):
            rule = f"`torch.autograd.grad` returns the gradient of `{x}` and fills no `.grad`"
        page.effect(line, rule, f"({result}).backward()", key, answers=(NOTHING,))


def _read(lines: Sequence[str]) -> Mapping[str, Answer]:
    """What each hook has noted."""
    seen = execute(lines)["seen"]
    return {key: _shown(seen[key].item()) if key in seen else NOTHING for key in _KEYS}


def _shown(value: float) -> str:
    """A number as it is answered."""
    return format(value + 0.0, "g")
