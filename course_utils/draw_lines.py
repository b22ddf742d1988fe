"""Lines over steps (``plot_lines``). Imports matplotlib when a figure is drawn."""

from collections.abc import Mapping, Sequence
from typing import Any


def plot_lines(lines: Mapping[str, Sequence[float]], *, x: str, y: str, title: str) -> Any:
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    for name, values in lines.items():
        ax.plot(range(1, len(values) + 1), values, label=name)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title)
    ax.legend()
    return None
