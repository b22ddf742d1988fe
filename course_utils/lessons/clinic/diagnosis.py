"""Asks for the line of the sick script behind each of its ten symptoms; the check counts from the script's own text."""

from typing import Any

from course_utils.checks.compare import Trial, predict
from course_utils.clinic.scripts import lines, sick_run

# For each symptom the lines of which one has to change, by their text. tests/test_clinic.py mends each fault there.
_CAUSES = {
    "encoder": (
        "model.encoder.requires_grad = False",
        "optimizer = torch.optim.SGD(model.parameters(), lr=dataset.learning_rate)",
    ),
    "weight": (
        "weight = nn.Parameter(scale * torch.randn(128, 10, device=dataset.device)).T",
        "model = Network(dataset, weight)",
    ),
    "log": ("losses.append(loss)", "loss = accumulate(model, images, labels, dataset.micro_rows)", "return total"),
    "steps": ("ctx.x, ctx.y = x, x * torch.sigmoid(x)", "return ctx.y"),
    "evaluation": (
        "outputs.append(model(x))",
        "for x, y in batches:",
        "def evaluate(model, batches):",
        "accuracies.append(evaluate(model, dataset.test))",
    ),
    "modes": (
        "model.eval()",
        "right = torch.cat(outputs).argmax(dim=1) == torch.cat(answers)",
        "return right.float().mean().item()",
    ),
    "gate": ("halves.append(is_open * Swish.apply(branch(x)))", "for branch, is_open in self.gates:"),
    "hooks": ("model.encoder.register_forward_hook(note)",),
    "gradient": ("loss = F.cross_entropy(model(x), y)", "total = total + loss"),
    "peak": ("total.backward()", "total = total + loss"),
}


def causes(_: Trial | None = None) -> dict[str, frozenset[int]]:
    """The numbers of the lines behind each symptom, as ``listing`` shows them."""
    text = [line.strip() for line in lines(sick_run)]
    return {symptom: frozenset(text.index(line) + 1 for line in found) for symptom, found in _CAUSES.items()}


def _number(value: Any) -> int:
    """34, 34.0 and "34"."""
    if type(value) is bool or not isinstance(value, (int, float, str)) or float(value) != int(float(value)):
        raise TypeError("the number of a line, as the listing shows it")
    return int(float(value))


diagnosis = predict(__file__, causes, _number)
