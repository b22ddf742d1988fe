"""The rules that drills practise, in words: one text a rule (``RULES``), what follows from it (``explain_answer``)."""

from __future__ import annotations

from course_utils.drills.programs import Reason

RULES = {
    # Tensors made from nothing.
    "default": "A new tensor does not require grad unless you ask for it",
    "raised": "The flag is asked for when the tensor is made, and nothing lowers it later",
    "parameter": "`nn.Parameter` raises the flag by itself",
    "unraised": "`nn.Parameter` raises the flag unless `requires_grad=False` says otherwise",
    "created": "A tensor that you create yourself has no history, whatever its flag",
    "computed at once": "The name stands for the result of the whole line, whose last operation is recorded; the "
    "tensor that asked for the flag is the one before it",
    "parameter of": "`nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad",
    # Operations.
    "any": "An operation is recorded as soon as one operand requires grad, and {carriers} {verb} here",
    "none": "An operation is recorded only if an operand requires grad, and {operands} {verb} not",
    "late": "When this line ran, {operands} did not require grad, so nothing was recorded. Raising the flag in line "
    "{raised} changes nothing that was computed before",
    "same object": "`{call}` has nothing to convert, so it returns the very object that {source} stands for",
    # What leaves the history behind.
    "detach": "`detach()` gives a tensor outside the graph, on the values of {source}",
    "data": "`.data` gives a tensor outside the graph, on the values of {source}",
    "detach_": "`detach_()` takes the tensor itself out of the graph",
    "tolist": "The values go through Python numbers, which carry no history; `torch.tensor` makes a new tensor of them",
    "like": "Only shape and dtype are taken from {source}: the result is a new tensor",
    "compare": "A comparison gives truth values, and only floating-point and complex tensors can require grad",
    "integer": "Integers cannot require grad, so the conversion ends the history of {source}",
    "position": "A position is an integer and has no gradient, so the history of {source} ends here",
    # Flags and in-place operations.
    "raised later": "`requires_grad_()` raises the flag of the tensor itself",
    "lowered": "`requires_grad_(False)` lowers the flag of a leaf, from this line on",
    "written": "Writing {source} into {target} in place is recorded: {target} now hangs on the history of {source}",
    # What backward leaves in `.grad`.
    "filled": "{name} is a leaf that requires grad since this line, and the loss is computed from it",
    "retained": "`retain_grad()` asks backward to keep the gradient of a tensor that is no leaf",
    "not kept": "Backward passes through {name} and fills `.grad` of leaves alone; {name} is an operation's result",
    "not flagged": "The loss is computed from {name}, which does not require grad: backward has nothing to do there",
    "not reached": "This line cuts every way from the loss back to {name}",
    "unused": "The loss is not computed from {name}, so no gradient comes there",
    # In-place edits.
    "edited": "Line {edit} edits {victim} in place",
    "counted": "An edit in place moves the version counter of the tensor, under `no_grad()` too",
    "noticed": "{why}. The edit in line {edit} comes after that and moves the version counter, so backward refuses",
    "unnoticed": "{why}. `.data` has a version counter of its own, so backward takes the new values for the old ones",
    "unnoticed by numpy": "{why}. NumPy moves no version counter, so backward takes the new values for the old ones",
    "not needed": "{why}, so the edit of {victim} does no harm",
    "copy": "`clone()` copies: the edit changes memory that {victim} has no part in",
    "not in place": "Without the underscore a new tensor is made and dropped; {victim} stays as it was",
    "before": "{why}, and line {edit} has run by then: what is kept is the edited tensor",
    "shares": "Memory is shared with {victim}, so an edit of one is an edit of the other",
    "shares its counter": "The version counter is shared with {victim} as the memory is, so the edit counts for both",
    "own counter": "`.data` shares the memory of {victim} and has a version counter of its own",
    "no counter": "The array shares the memory of {victim}, and NumPy knows of no version counter",
    "elsewhere": "{why}. The edit changes other elements than those, and `.data` moves no counter of {victim}",
    "one counter": "{why}. The edit changes other elements, but {victim} and its views have one version counter in "
    "common, so backward refuses",
    "undone": "The second edit puts back exactly what the first one changed, and `.data` moves no counter of {victim}",
    # Modes and layers.
    "no_grad": "Nothing that is computed under `no_grad()` is recorded (line {at})",
    "view": "A view answers for its base, also where nothing is recorded: {source} requires grad, and so the view says "
    "it does, though it has no history",
    "unrecorded write": "Under `no_grad()` the edit in line {write} changes the values and is not recorded",
    "enabled": "`enable_grad()` switches recording on again, also inside `no_grad()` (line {at})",
    "mode default": "Grad mode is on until something switches it off",
    "inside off": "`{context}` switches grad mode off until its block ends",
    "inside on": "`{context}` switches grad mode on until its block ends",
    "restored": "When the block of `{context}` ends, the mode from before it comes back: grad mode is on again",
    "bare": "`torch.no_grad()` alone on a line makes a context manager that nobody enters: nothing is switched off",
    "set": "`set_grad_enabled({value})` as a statement holds from its line on, to the end of the block it stands in",
    "inference wins": "Inference mode records nothing, whatever grad mode says; only its end or "
    "`inference_mode(False)` leaves it",
    "factory": "Grad modes decide what is recorded. A new tensor has the flag that it asks for, and a parameter asks",
    "decorated": "The decorator switches grad mode off while {function} runs, so nothing in it is recorded",
    "call is over": "The decorator switches grad mode off while {function} runs, and only then",
    "called": "What counts is the mode when {function} is called, not the mode when it was written",
    "eval": "`eval()` changes what dropout and batch norm do, and nothing about recording: the parameters require grad",
    "generator": "The block in the generator is open while it computes its value",
    "generator leaks": "At `yield` the generator waits inside its block, and grad mode is one for the whole thread: it "
    "stays off for the caller",
    "generator closed": "`close()` ends the generator's block, and the mode from before it comes back",
    "decorated generator": "The decorator switches grad mode off each time the generator runs",
    "decorated generator waits": "The decorator switches grad mode back whenever the generator waits at its `yield`",
    "thread": "Each thread has a grad mode of its own, and a new one starts with grad mode on",
    "layer": "The parameters of a layer require grad, so its output does, whatever its input",
    "frozen": "`requires_grad_(False)` lowers the flag of every parameter of the layer, and the input passes none on",
    "misspelt": "`layer.requires_grad = False` sets an attribute that nobody reads: the parameters still require grad",
}


def explain_answer(reason: Reason, consequence: str) -> str:
    """The rule that decided, and what follows from it.

    Args:
        reason: the line and its rule.
        consequence: a clause such as "`c` does not require grad".
    """
    text = RULES[reason.rule].format_map(reason.facts)
    if reason.through:
        lines = " and ".join(map(str, reason.through))
        text += f". Line {lines} passes it on" if len(reason.through) == 1 else f". Lines {lines} pass it on"
    return f"{text}. So {consequence}."
