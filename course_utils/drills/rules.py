"""The rules that drills practise, in words (``RULES``), and what follows from them (``explain_answer``)."""

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
    "copy": "{call} makes a tensor with memory of its own: the edit changes nothing of {victim}",
    "same tensor": "{alias} and {victim} are two names for one tensor: nothing is copied, and no view is made",
    "rebound": "This line makes a new tensor and gives it the name {alias}; {victim} stays as it was",
    "put back": "`copy_` puts back the values from before the edit",
    "put back, counted": "{why}. The values are those from before, but the version counter has moved, and backward "
    "looks at that alone",
    "replaced": "{why}. Setting `.data` gives {victim} other memory, and backward finds the new values there",
    "replaced, uncounted": "Setting `.data` gives {victim} other memory, and its version counter does not move",
    "stepped": "`step()` edits the parameter in place, under `no_grad()`, and that moves its version counter",
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
    "view": "A view answers for its base, also where nothing is recorded: {source} requires grad, and so the view "
    "says it does, though it has no history",
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
    "generator leaks": "At `yield` the generator waits inside its block, and grad mode is one for the whole thread: "
    "it stays off for the caller",
    "generator closed": "`close()` ends the generator's block, and the mode from before it comes back",
    "decorated generator": "The decorator switches grad mode off each time the generator runs",
    "decorated generator waits": "The decorator switches grad mode back whenever the generator waits at its `yield`",
    "thread": "Each thread has a grad mode of its own, and a new one starts with grad mode on",
    "layer": "The parameters of a layer require grad, so its output does, whatever its input",
    "frozen": "`requires_grad_(False)` lowers the flag of every parameter of the layer, and the input passes none on",
    "misspelt": "`layer.requires_grad = False` sets an attribute that nobody reads: the parameters still require grad",
    # The weight of a row in an accumulated gradient.
    "same weight": "`whole` gives each {unit} the weight {whole}. The loop gives it {part}{passes} before it "
    "divides, and {made} with {key}",
    "other weight": "`whole` gives each {unit} the weight {whole}. The loop gives it {part}{passes} before it "
    "divides, and {made} with {key}",
    "uneven": "`split` leaves a last part that is smaller. `whole` gives each {unit} the weight {whole}; with {key} "
    "the loop gives it {made}. Equal parts would have made it right",
    "ignored": "`cross_entropy` leaves out labels of -100, in its mean, too. `whole` gives each {unit} the weight "
    "{whole}; with {key} the loop gives it {made}",
    "passes": "The loop sees all the data twice. `whole` gives each {unit} the weight {whole}; with {key} the loop "
    "gives it {made} over both",
    # What a loop hands over.
    "taken": "The loop takes {taken} at a time, and {key} says the same",
    "taken otherwise": "The loop takes {taken} at a time, and {key} takes {dim} of {name}",
    "put elsewhere": "The loop puts its results along dimension {wanted}, and {key} puts them along dimension {out}",
    # Branches.
    "runs first": "This line calls {branch}; what is done with its result comes after that",
    "is not called": "This line does not call {branch}, so nothing is computed and no gradient comes there",
    "open gate": "The loss is computed from the result of {branch}",
    "closed gate": "The result of {branch} is part of the graph, and its gradient is multiplied by zero on the way "
    "back",
    "unused result": "{branch} is run and its result is dropped: the loss is not computed from it, so backward "
    "never comes there",
    "rows of its own": "At least one row of the result of {branch} is used, and gradients come back through it",
    "no rows": "{branch} runs on all rows and none of its results is used. The selection is part of the graph and "
    "hands back zeros",
    "runs on no rows": "{branch} runs on a batch of no rows. It is part of the graph, and a sum over no rows is zero",
    "run under no_grad": "{branch} runs in the block, where nothing is recorded, so backward never comes there",
    "detached": "{branch} runs and is recorded, and `detach()` cuts it off: backward never comes there",
    "left over": "Nothing clears the gradients that this line has left",
    "set to zeros": "`set_to_none=False` fills the old gradient with zeros, and line {line} adds none for {branch}",
    "set to None": "`zero_grad()` drops the old gradient, and line {line} makes none for {branch}",
    "None is passed over": "`zero_grad()` drops the gradient, and an optimizer passes over a parameter whose "
    "`.grad` is None, with all that it remembers",
    "zeros move nothing": "Plain SGD subtracts the gradient times the learning rate, and that is zero",
    "momentum moves on": "For SGD with momentum a gradient of zeros is a gradient like any other: the momentum of "
    "the first step goes on",
    "Adam moves on": "For Adam a gradient of zeros is a gradient like any other: the averages of the first step go on",
    "decay moves on": "For SGD with weight decay a gradient of zeros is a gradient like any other: the decay is "
    "added to it",
    # Hooks.
    "sees what comes out": "A forward hook of {module} runs when it has been called, and sees its result",
    "sees what goes in": "A forward pre-hook of {module} runs before it, and sees its input",
    "removed": "`remove()` takes the hook of `{key}` away before the net runs",
    "registered late": "Line {run} has run by then, and a hook sees only what comes later",
    "not called": "Hooks run when a module is called. This line does not call {module}: `forward` is a method, and "
    "knows of no hooks",
    "changed": "What this hook returns takes the place of {where}, for all that comes after it",
    "edited afterwards": "What is noted is the tensor itself and no copy, and {module} edits it in place afterwards",
    "sees the gradient": "The hook sees the gradient of the result with respect to {tensor}, as it comes there",
    "sees the kept gradient": "The hook runs when `.grad` of {tensor} has been filled, after all other hooks of "
    "{tensor}",
    "gradient changed": "What this hook returns takes the place of the gradient of {tensor}, for all that comes "
    "after it",
    "not on the way": "`torch.autograd.grad` goes back as far as {tensor} and no further",
    "no gradient kept": "`torch.autograd.grad` returns the gradient of {tensor} and fills no `.grad`",
    # What a graph holds.
    "leaf is held": "{name} is a leaf that requires grad: the graph ends in a node that will fill its `.grad`, and "
    "that node holds the tensor itself",
    "keeps its input": "{op} in line {line} needs its input {source} in backward",
    "keeps its result": "{op} in line {line} needs its result {result} in backward, and not its input {source}",
    "keeps nothing": "{op} in line {line} needs no values of its input in backward",
    "keeps a factor": "`*` in line {line} needs {source} for the gradient of {partner}",
    "needs no factor": "`*` in line {line} would need {source} for the gradient of {partner} alone, which requires "
    "none",
    "handed over": "{function} hands {source} to `save_for_backward`, whatever its backward will do with it",
    "not handed over": "{function} saves nothing of {source}. What it has computed with it does not matter",
    "asked for": "{function} saves {source}, since its input {index} requires grad",
    "not asked for": "{function} saves {source} only where its input {index} requires grad, and that does not",
    "on ctx": "An attribute of `ctx` stays as long as the node does, and backward does not free it",
    "freed by backward": "Backward frees what was saved for it, and {source} was",
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
