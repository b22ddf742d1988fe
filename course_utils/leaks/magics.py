"""``%load_ext course_utils`` brings ``%%memory``, and with it ``%%memory --growth``: what of a cell's loop grows
(``load_ipython_extension``).
"""

from typing import Any

from course_utils.leaks.findings import GrowthReport
from course_utils.leaks.watch import watch_growth
from course_utils.memory.tools import magics


def load_ipython_extension(ipython: Any) -> None:
    """Adds the cell magic ``%%memory`` to a running IPython; called by ``%load_ext course_utils``.

    Usage: ``%%memory [--device DEVICE] [--engine ENGINE] [NAME ...]``, where the names are variables that hold modules,
    optimizers or tensors, as for ``MemoryTracker``: below the cell stand its peak, what is still alive, what of that
    graphs hold, and what the result keeps. Or ``%%memory --growth``, which runs the cell under ``watch_growth`` and
    shows its report as a card.

    Args:
        ipython: the running shell.
    """
    from IPython.core.magic import output_can_be_silenced

    @output_can_be_silenced
    def memory(line: str, cell: str) -> Any:
        if line.split() == ["--growth"]:
            return show_growth(ipython, cell)
        return magics.run_cell(ipython, line, cell)

    ipython.register_magic_function(memory, "cell", "memory")


def show_growth(ipython: Any, cell: str) -> None:
    """Runs a cell under ``watch_growth`` and shows the report, also where the cell raises."""
    from IPython.display import display

    report: GrowthReport | None = None
    growth = watch_growth()
    # Lines are those of the cell as it stands in the notebook, under its number: IPython counts what a magic runs anew.
    first = "" if cell.lstrip().startswith("%%") else "# %%memory --growth\n"
    numbers = getattr(ipython.compile, "_filename_map", {})
    before = dict(numbers)
    try:
        with growth:
            ipython.run_cell(first + cell).raise_error()
    finally:
        numbers.update(dict.fromkeys(numbers.keys() - before.keys(), next(reversed(before.values()), 0)))
        report = growth.report()
        display(report)
