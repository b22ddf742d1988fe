"""For each rule of the drills, a small change of the line that it blames, after which the answer must be another one.

Works on a program's text and a question alone, and runs what comes out with code of its own, so that it can tell when a
drill blames the wrong line.
"""

import contextlib
import gc
import math
import re
import threading
import warnings
from dataclasses import dataclass

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F


@dataclass
class Source:
    """A program's lines, each with the number by which a question knows it; added lines have none."""

    rows: list

    @classmethod
    def of(cls, program):
        return cls(list(enumerate(program.lines, 1)))

    def at(self, number):
        return next(index for index, row in enumerate(self.rows) if row[0] == number)

    def text(self, number):
        return self.rows[self.at(number)][1]

    def put(self, number, text):
        self.rows[self.at(number)] = (number, text)

    def drop(self, first, last=None):
        last = last or first
        self.rows = [row for row in self.rows if row[0] is None or not first <= row[0] <= last]

    def before(self, number, text):
        self.rows.insert(self.at(number), (None, indent_of(self.text(number)) + text))

    def after(self, number, text):
        self.rows.insert(self.at(number) + 1, (None, indent_of(self.text(number)) + text))


def indent_of(text):
    return text[: len(text) - len(text.lstrip())]


def right_side(text, change):
    left, right = text.split(" = ", 1)
    return f"{left} = {change(right)}"


def changed(text, *pairs):
    """The text with the first pattern that occurs replaced."""
    for pattern, by in pairs:
        new = re.sub(pattern, by, text)
        if new != text:
            return new
    raise AssertionError(f"none of {[pattern for pattern, _ in pairs]} in {text!r}")


def flagless(text):
    return changed(
        text,
        (r", requires_grad=True", ""),
        (r"\.requires_grad_\(\)", ""),
        (r"nn\.Parameter(\(.*\))$", r"\1.detach()"),
    )


def with_history(text):
    """What cuts the history replaced by something differentiable of the same shape."""
    return changed(
        text,
        (r"torch\.tensor\((\w)\.tolist\(\)\)", r"\1.clone().float()"),
        (r"torch\.(ones|zeros)_like\((\w)\)", r"\2.clone()"),
        (r" [<>] \d$", " * 1"),
        (r"\.(long|int)\(\)", ".clone()"),
        (r"\.arg(max|min)\(\)", ".sum()"),
        (r"\.detach\(\)|\.data\b", ".clone()"),
        (r"nn\.Parameter(\(.*\))$", r"\1"),
        (r"no_grad", "enable_grad"),
    )


def other_mode(text):
    off, on = "enable_grad()", "no_grad()"
    return changed(
        text,
        (r"torch\.(no_grad\(\)|inference_mode\(\)|set_grad_enabled\(False\))", f"torch.{off}"),
        (r"torch\.(enable_grad\(\)|set_grad_enabled\(True\)|inference_mode\(False\))", f"torch.{on}"),
    )


def said(question, pattern):
    return re.findall(r"`(\w+)`", re.search(pattern, question.explanation)[1])


# The mutations: each takes the source, the question and the program, and edits the source.


def append(tail):
    return lambda source, q, p: source.put(q.line, source.text(q.line) + tail)


def rewrite(*pairs):
    return lambda source, q, p: source.put(q.line, changed(source.text(q.line), *pairs))


def through(function):
    return lambda source, q, p: source.put(q.line, function(source.text(q.line)))


def drop_line(source, q, p):
    source.drop(q.line)


def drop_edit(source, q, p):
    source.drop(*p.edited)


def replace_name(text, name, by):
    """The name on the right side of an assignment replaced."""
    return right_side(text, lambda right: re.sub(rf"\b{name}\b", by, right))


def detach_carriers(source, q, p):
    for name in said(q, r"requires grad, and (.*?) do(es)? here"):
        source.put(q.line, replace_name(source.text(q.line), name, f"{name}.detach()"))


def flag_one_operand(source, q, p):
    name = said(q, r"(?:requires grad, and|ran,) (.*?) d(?:o|oes|id) not")[0]
    source.put(q.line, replace_name(source.text(q.line), name, f"{name}.detach().requires_grad_()"))


def end_parameter(source, q, p):
    asks_for_leaf = q.explanation.endswith("leaf.")
    source.put(q.line, source.text(q.line) + (" * 1" if asks_for_leaf else ".detach()"))


def make_leaf(source, q, p):
    name = q.key.partition(".")[0]
    source.after(q.line, f"{name} = {name}.detach().requires_grad_()")


def not_filled(source, q, p):
    if source.text(q.line).startswith(f"{q.key[0]}."):
        source.drop(q.line)
    else:
        source.put(q.line, flagless(source.text(q.line)))


def open_way(source, q, p):
    if source.text(q.line).endswith(".detach_()"):
        source.drop(q.line)
    else:
        source.put(q.line, with_history(source.text(q.line)))


def need_victim(source, q, p):
    victim = said(q, r"edit of (`\w`) does no harm")[0]
    name, text = source.text(q.line).split(" = ")[0], source.text(q.line)
    source.put(q.line, right_side(text, lambda r: f"({r}).tanh()" if name == victim else f"({r}) * {victim}"))


def edit_later(source, q, p):
    first, last = p.edited
    moved = [row for row in source.rows if first <= row[0] <= last]
    source.drop(first, last)
    source.rows[-1:-1] = moved


def stay_inside(source, q, p):
    text = source.text(q.line)
    context = re.search(r"with (.*):", text)[1]
    source.before(q.line, f"kept = {context}")
    source.before(q.line, "kept.__enter__()")
    source.put(q.line, indent_of(text) + "if True:")


def leave_off_in_function(source, q, p):
    source.drop(q.line)
    source.after(q.line + 1, "    torch.set_grad_enabled(False)")


def block_at_yield(source, q, p):
    source.drop(q.line)
    text = source.text(q.line + 2)
    source.put(q.line + 2, indent_of(text) + "with torch.no_grad(): " + text.strip())


def right_key(p):
    return next(question.key for question in p.questions if question.expected)


def scaled(source, q, p):
    """The loss of a part, made so much larger that the wrong divisor becomes the right one."""
    text = source.text(q.line)
    source.put(q.line, right_side(text, lambda loss: f"({loss}) / ({right_key(p)}) * ({q.key})"))


def even_parts(source, q, p):
    rows = int(re.search(r"\((\d+)", p.lines[0])[1])
    chunk = int(re.search(r"split\((\d+)\)", source.text(q.line))[1])
    source.put(q.line, re.sub(r"split\(\d+\)", f"split({rows // math.ceil(rows / chunk)})", source.text(q.line)))


def loop_as_asked(source, q, p):
    text = p.lines[-1].removeprefix("once = ").replace("IN_DIMS", q.key)
    source.put(q.line, "loop = " + text.replace("each", p.lines[-2].removeprefix("each = ")))


def called_otherwise(source, q, p):
    """The branch's own result without a call of the branch."""
    name = q.key[0]
    swap = {"[0](": "[1](", "[1](": "[0]("}
    linear = (rf"\b{name}\(([^()]*)\)", rf"F.linear(\1, {name}.weight)")
    source.put(q.line, changed(source.text(q.line), linear, (r"\[[01]\]\(", lambda match: swap[match[0]])))


def called_always(source, q, p):
    name, x = q.key[0], re.match(r"\w", p.lines[0])[0]
    source.after(q.line, f"if True: ({name}({x}) * 0).sum().backward()")


def cut_branch(source, q, p):
    name = q.key[0]
    calls = rf"\b{name}\([^()]*\)", r"\[[^]]*\]\[\d\]\(\w\)"
    source.put(q.line, changed(source.text(q.line), *((f"({call})", r"\1.detach()") for call in calls)))


def call_the_module(source, q, p):
    """The same line with calls of the net, so that every hook's module is called."""
    number = re.search(r"(\w)\)+$", source.text(q.line))[1]
    source.put(q.line, f"result = net({number})")


def register_first(source, q, p):
    text = source.text(q.line)
    source.drop(q.line)
    run = next(row[0] for row in source.rows if row[1].startswith("result = "))
    source.before(run, text)


def keep_input(source, q, p):
    """The operation replaced by one that needs its input."""
    source.put(q.line, right_side(source.text(q.line), lambda right: f"{q.key} * ({right})"))


def keep_nothing(source, q, p):
    text = source.text(q.line)
    name = text.split(" = ")[0] if text.split(" = ")[0] != q.key else re.search(r"= .*?\b([a-z])\b(?!\()", text)[1]
    operand = q.key if name == text.split(" = ")[0] else name
    source.put(q.line, right_side(text, lambda right: f"{operand} + 1"))


def detach_partner(source, q, p):
    partner = said(q, r"gradient of (`\w`)")[0]
    source.put(q.line, replace_name(source.text(q.line), partner, f"{partner}.detach()"))


def flag_partner(source, q, p):
    partner = said(q, r"gradient of (`\w`)")[0]
    source.put(q.line, replace_name(source.text(q.line), partner, f"({partner} * 1).requires_grad_()"))


COPY = (
    (r"\.detach\(\)", ".detach().clone()"),
    (r"\.data\b", ".data.clone()"),
    (r"(\[[\d:-]+\]|\.view\(2, 2\))", r"\1.clone()"),
)

MUTATIONS = {
    "default": append(".requires_grad_()"),
    "raised": through(flagless),
    "parameter": through(flagless),
    "unraised": rewrite((", requires_grad=False", "")),
    "created": through(lambda text: right_side(text, lambda right: f"({right}).detach().requires_grad_() * 1")),
    "computed at once": through(flagless),
    "parameter of": end_parameter,
    "any": detach_carriers,
    "none": flag_one_operand,
    "late": flag_one_operand,
    "same object": append(" * 1"),
    "detach": through(with_history),
    "data": through(with_history),
    "tolist": through(with_history),
    "like": through(with_history),
    "compare": through(with_history),
    "integer": through(with_history),
    "position": through(with_history),
    "detach_": drop_line,
    "raised later": drop_line,
    "lowered": drop_line,
    "written": drop_line,
    "filled": not_filled,
    "retained": drop_line,
    "not kept": make_leaf,
    "not flagged": append(".requires_grad_()"),
    "not reached": open_way,
    "unused": lambda source, q, p: source.put(q.line, source.text(q.line) + f" + {q.key[0]}.sum()"),
    "edited": drop_edit,
    "counted": drop_edit,
    "noticed": drop_edit,
    "unnoticed": rewrite((r"\.data\b", ".detach()")),
    "unnoticed by numpy": rewrite((r"\.numpy\(\)", "")),
    "not needed": need_victim,
    "copy": rewrite((r"\.clone\(\)", ""), (r"\.flip\(0\)", "[:]"), (r"\[\[0, 1\]\]", "[:2]"), (r"\.double\(\)", "[:]")),
    "same tensor": append(" * 1"),
    "rebound": rewrite((r"(\w) = \1 ([*+-])", r"\1 \2=")),
    "put back": drop_line,
    "put back, counted": drop_edit,
    "replaced": drop_edit,
    "replaced, uncounted": rewrite((r"(\w)\.data = (.*)$", r"\1.detach().copy_(\2)")),
    "stepped": drop_edit,
    "not in place": rewrite((r"\.(mul|add|neg)\(", r".\1_(")),
    "before": edit_later,
    "shares": rewrite(*COPY),
    "shares its counter": rewrite(*COPY),
    "own counter": rewrite((r"\.data\b", ".detach()")),
    "no counter": rewrite((r"\.numpy\(\)", "")),
    "elsewhere": rewrite((r"\.data\[2:\]", ".data")),
    "one counter": drop_edit,
    "undone": drop_line,
    "no_grad": through(other_mode),
    "view": append(".clone()"),
    "unrecorded write": through(other_mode),
    "enabled": through(other_mode),
    "mode default": lambda source, q, p: source.before(q.line, "torch.set_grad_enabled(False)"),
    "inside off": through(other_mode),
    "inside on": through(other_mode),
    "restored": stay_inside,
    "bare": rewrite((r"torch\.no_grad\(\)", "torch.set_grad_enabled(False)")),
    "set": lambda source, q, p: source.put(
        q.line, changed(source.text(q.line), (r"\(False\)", "(not False)"), (r"\(True\)", "(False)"))
    ),
    "inference wins": rewrite((r"inference_mode\(\)", "no_grad()")),
    "factory": through(flagless),
    "decorated": drop_line,
    "call is over": leave_off_in_function,
    "called": lambda source, q, p: source.put(q.line, "with torch.no_grad(): " + source.text(q.line)),
    "eval": rewrite((r"\.eval\(\)", ".requires_grad_(False)")),
    "generator": rewrite((r"with torch\.no_grad\(\):", "if True:")),
    "generator leaks": rewrite((r"with torch\.no_grad\(\):", "if True:")),
    "generator closed": drop_line,
    "decorated generator": drop_line,
    "decorated generator waits": block_at_yield,
    "thread": rewrite((r"target=(lambda: .*)\)$", r"target=torch.no_grad()(\1))")),
    "layer": lambda source, q, p: source.before(q.line, "layer.requires_grad_(False)"),
    "frozen": drop_line,
    "misspelt": rewrite((r"requires_grad = False", "requires_grad_(False)")),
    "same weight": through(lambda text: right_side(text, lambda right: f"2 * ({right})")),
    "other weight": scaled,
    "uneven": even_parts,
    "ignored": drop_line,
    "passes": rewrite((r"range\(2\)", "range(1)")),
    "taken": append(" + 1"),
    "taken otherwise": loop_as_asked,
    "put elsewhere": loop_as_asked,
    "runs first": called_otherwise,
    "is not called": called_always,
    "open gate": cut_branch,
    "closed gate": cut_branch,
    "unused result": rewrite((r"= (\[.*\])\[\d\]$", r"= sum(\1)")),
    "rows of its own": cut_branch,
    "no rows": cut_branch,
    "runs on no rows": cut_branch,
    "run under no_grad": through(other_mode),
    "detached": rewrite((r"\.detach\(\)", "")),
    "left over": drop_line,
    "set to zeros": rewrite(("False", "True")),
    "set to None": rewrite((r"zero_grad\(\)", "zero_grad(set_to_none=False)")),
    "None is passed over": rewrite((r"zero_grad\(\)", "zero_grad(set_to_none=False)")),
    "zeros move nothing": rewrite((r"\)$", ", momentum=0.9)")),
    "momentum moves on": rewrite((", momentum=0.9", "")),
    "Adam moves on": rewrite(("Adam", "SGD")),
    "decay moves on": rewrite((", weight_decay=0.1", "")),
    "sees what comes out": drop_line,
    "sees what goes in": drop_line,
    "removed": drop_line,
    "registered late": register_first,
    "not called": call_the_module,
    "changed": drop_line,
    "edited afterwards": rewrite((r"inplace=True", "")),
    "sees the gradient": drop_line,
    "sees the kept gradient": drop_line,
    "gradient changed": drop_line,
    "not on the way": rewrite((r"torch\.autograd\.grad\((.*), \w\)$", r"(\1).backward()")),
    "no gradient kept": rewrite((r"torch\.autograd\.grad\((.*), \w\)$", r"(\1).backward()")),
    "leaf is held": through(flagless),
    "keeps its input": keep_nothing,
    "keeps its result": lambda source, q, p: (keep_nothing if q.expected else keep_input)(source, q, p),
    "keeps nothing": keep_input,
    "keeps a factor": detach_partner,
    "needs no factor": flag_partner,
    "handed over": drop_line,
    "not handed over": rewrite(
        (r"ctx\.kept = .*", "ctx.kept = value, factor"), (r"(if .*: )?ctx\..*", "ctx.save_for_backward(value, factor)")
    ),
    "asked for": rewrite((r"if ", "if not ")),
    "not asked for": rewrite((r"if ", "if not ")),
    "on ctx": drop_line,
    "freed by backward": drop_line,
}


def mutated(program, question):
    """The program with the blamed line changed."""
    source = Source.of(program)
    MUTATIONS[question.rule](source, question, program)
    return source


# Running a program that may have been changed.


def in_fresh_thread(function):
    """The function's result, computed where grad mode is on; its exception is raised here."""
    box = []

    def work():
        try:
            box.append((function(), None))
        except Exception as error:
            box.append((None, error))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    result, error = box[0]
    if error is not None:
        raise error
    return result


def observe(source, program, topic, key):
    """The answer to one question by running the source; it may end in an error once the key has been made."""
    look = {
        "edits": _edit,
        "scale": _scale,
        "in_dims": _in_dims,
        "gates": _gate,
        "hooks": _hook,
        "functions": _function,
    }
    return in_fresh_thread(lambda: look.get(topic, _state)(source, program, topic, key))


def _run(source):
    space = _space()
    torch.manual_seed(0)
    exec(compile("\n".join(text for _, text in source.rows), "<mutated>", "exec"), space)
    return space


def _scale(source, program, topic, key):
    space = _run(Source([(number, text.replace("DIVISOR", key)) for number, text in source.rows]))
    left = space["model"].weight.grad
    space["model"].zero_grad()
    space["whole"].backward()
    return torch.allclose(left, space["model"].weight.grad, rtol=1e-3, atol=1e-6)


def _in_dims(source, program, topic, key):
    try:
        space = _run(Source([(number, text.replace("IN_DIMS", key)) for number, text in source.rows]))
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    once, loop = space["once"], space["loop"]
    return once.shape == loop.shape and bool((once - loop).abs().max() < 1e-4)


def _gate(source, program, topic, key):
    """Counts calls and keeps weights with lines of its own in the program's text."""
    calls, name, (first, last) = [], key[0], program.edited
    rows = [text for _, text in source.rows]
    inserted = [(2, f"{name}.register_forward_hook(lambda *_: calls_.append(1))")]
    if first:
        numbers = [row[0] for row in source.rows]
        inserted += [(numbers.index(first), "calls_.clear()")]
        inserted += [(numbers.index(last), f"before_ = {name}.weight.detach().clone()")]
    for index, text in sorted(inserted, reverse=True):
        rows.insert(index, text)
    space = _space() | {"calls_": calls}
    torch.manual_seed(0)
    with contextlib.suppress(RuntimeError):  # where every way is cut, there is nothing to run backward through
        exec(compile("\n".join(rows), "<mutated>", "exec"), space)
    if key.endswith("runs"):
        return bool(calls)
    weight = space[name].weight
    if key.endswith("moves"):
        return bool((weight != space["before_"]).any())
    return "none" if weight.grad is None else "values" if bool((weight.grad != 0).any()) else "zeros"


def _hook(source, program, topic, key):
    seen = _run(source)["seen"]
    return f"{float(seen[key]) + 0.0:g}" if key in seen else "nothing"


def _function(source, program, topic, key):
    """Whether anything holds the tensor's memory once its name and all but the last one are gone."""
    space = _space()
    torch.manual_seed(0)
    last = [re.match(r"(\w) = ", text)[1] for _, text in source.rows if re.match(r"\w = ", text)][-1]
    was = gc.isenabled()
    gc.disable()
    try:
        with contextlib.suppress(RuntimeError):
            exec(compile("\n".join(text for _, text in source.rows), "<mutated>", "exec"), space)
        pointer = StorageWeakRef(space[key].untyped_storage())
        for name in [name for name, value in space.items() if isinstance(value, torch.Tensor) and name != last]:
            del space[name]
        return not pointer.expired()
    finally:
        if was:
            gc.enable()


def _space():
    return {"torch": torch, "nn": nn, "F": F, "Thread": threading.Thread}


def _state(source, program, topic, key):
    space, name = _space(), key.partition(".")[0]
    code = "\n".join(text for _, text in source.rows)
    torch.manual_seed(0)
    try:
        exec(compile(code, "<mutated>", "exec"), space)
    except RuntimeError:
        if name not in space:
            raise
    value = space[name]
    if isinstance(value, bool):
        return value
    if key != name:
        return value.grad is not None
    return value.is_leaf if topic == "leaves" else value.requires_grad


def _edit(source, program, topic, key):
    """Puts marks into the program's text: where the edit begins, where it ends, where the loss has been made."""
    space, seen = _space(), {}
    name, _, what = key.partition(" ")

    def reference():
        seen["leaves"] = [t for t in space.values() if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad]
        try:
            seen["right"] = torch.autograd.grad(space["loss"], seen["leaves"], retain_graph=True, allow_unused=True)
        except RuntimeError:
            seen["right"] = None

    def mark(when):
        if what:
            seen[when] = space[name].detach().clone(), space[name]._version

    space |= {"reference_": reference, "mark_": mark}
    first, last = program.edited
    rows = list(source.rows)
    loss = next(index for index, row in enumerate(rows) if row[1].startswith("loss = "))
    inside = [index for index, row in enumerate(rows) if row[0] is not None and first <= row[0] <= last]
    marks = [(loss + 1, "reference_()")]
    marks += [(inside[0], "mark_('before')"), (inside[-1] + 1, "mark_('after')")] if inside else []
    for index, text in sorted(marks, reverse=True):
        rows.insert(index, (None, text))
    code, error = "\n".join(text for _, text in rows), None
    try:
        exec(compile(code, "<mutated>", "exec"), space)
    except RuntimeError as raised:
        error = raised
    if what and not inside:
        return False
    if what == "changed":
        return not torch.equal(seen["before"][0], seen["after"][0])
    if what == "counted":
        return seen["after"][1] > seen["before"][1]
    if error is not None:
        return "error"
    same = [
        (leaf.grad is None) == (right is None) and (right is None or torch.equal(leaf.grad, right))
        for leaf, right in zip(seen["leaves"], seen["right"], strict=True)
    ]
    return "right gradient" if all(same) else "wrong gradient"
