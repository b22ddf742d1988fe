"""For each rule of the drills, a small change of the line that it blames, after which the answer must be another one.

Works on a program's text and a question alone, and runs what comes out with code of its own, so that it can tell when a
drill blames the wrong line.
"""

import re
import threading
import warnings
from dataclasses import dataclass

import torch
from torch import nn


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
    "copy": rewrite((r"\.clone\(\)", "")),
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
    return in_fresh_thread(lambda: (_edit if topic == "edits" else _state)(source, program, topic, key))


def _space():
    return {"torch": torch, "nn": nn, "Thread": threading.Thread}


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
