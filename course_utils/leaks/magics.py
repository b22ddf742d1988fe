"""``%load_ext course_utils`` brings ``%%memory``, and with it ``%%memory --growth``: what of a cell's loop grows; and
``%why`` (``load_ipython_extension``).
"""

from typing import Any

from course_utils.leaks.findings import GrowthReport
from course_utils.leaks.watch import watch_growth
from course_utils.memory import magics


def load_ipython_extension(ipython: Any) -> None:
    """Adds the cell magic ``%%memory`` and the line magic ``%why`` to a running IPython; called by ``%load_ext
    course_utils``.

    Usage: ``%%memory [--device DEVICE] [NAME ...]``, where the names are variables that hold modules,
    optimizers or tensors, as for ``MemoryTracker``: below the cell stand its peak, what is still alive, what of that
    graphs hold, and what the result keeps. Or ``%%memory --growth``, which runs the cell under ``watch_growth`` and
    shows its report as a card. ``%why`` is ``why()``, and ``%why model.weight, loss`` is ``why(model.weight, loss)``.

    Args:
        ipython: the running shell.
    """
    from IPython.core.magic import output_can_be_silenced

    @output_can_be_silenced
    def memory(line: str, cell: str) -> Any:
        if line.split() == ["--growth"]:
            return show_growth(ipython, cell)
        return magics.run_cell(ipython, line, cell)

    @output_can_be_silenced
    def why(line: str) -> Any:
        return ipython.ev(f"__import__('importlib').import_module('course_utils.why.ask').why({line})")

    ipython.register_magic_function(memory, "cell", "memory")
    ipython.register_magic_function(why, "line", "why")


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
