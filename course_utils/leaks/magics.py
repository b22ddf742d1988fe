"""``%load_ext course_utils`` brings ``%%memory``, and with it ``%%memory --growth``: what of a cell's loop grows; and
``%why``, ``%%why`` (``load_ipython_extension``).
"""

from typing import Any

from course_utils.leaks.watch import watch_growth
from course_utils.memory import magics
from course_utils.why.magics import add_why, run_as_it_stands


def load_ipython_extension(ipython: Any) -> None:
    """Adds the magics ``%%memory``, ``%why`` and ``%%why`` to a running IPython; called by ``%load_ext course_utils``.

    Usage: ``%%memory [--device DEVICE] [NAME ...]``, where the names are variables that hold modules,
    optimizers or tensors, as for ``MemoryTracker``: below the cell stand its peak, what is still alive, what of that
    graphs hold, and what the result keeps. Or ``%%memory --growth``, which runs the cell under ``watch_growth`` and
    shows its report as a card. ``%why`` is ``why()``, ``%why model.weight, loss`` is ``why(model.weight, loss)``, and
    ``%%why`` above a cell runs it inside ``watch_why`` and answers below it.

    Args:
        ipython: the running shell.
    """
    from IPython.core.magic import output_can_be_silenced
    from IPython.display import display

    @output_can_be_silenced
    def memory(line: str, cell: str) -> Any:
        if line.split() != ["--growth"]:
            return magics.run_cell(ipython, line, cell)
        growth = watch_growth()
        try:
            with growth:
                run_as_it_stands(ipython, cell, "%%memory --growth").raise_error()
        finally:  # also where the cell raises
            display(growth.report())

    ipython.register_magic_function(memory, "cell", "memory")
    add_why(ipython)
