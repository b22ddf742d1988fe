"""``predicted_flags``: say which results require grad. The check runs the lines of the exercise and reads each flag."""

from course_utils.checks.compare import Trial, predict


def _worked_example(trial: Trial) -> dict[str, bool]:
    a, b = trial.randn(3), trial.randn(3)
    square = a**2
    c = square.clone().requires_grad_()
    d = c + b
    total = d.sum()
    index, mask = d.argmax(), d > 0
    total.backward()
    tensors = {"a": a, "b": b, "square": square, "c": c, "d": d, "total": total, "index": index, "mask": mask}
    return {name: tensor.requires_grad for name, tensor in tensors.items()}


predicted_flags = predict(__file__, _worked_example)
