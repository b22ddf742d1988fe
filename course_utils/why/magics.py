"""``%why`` and ``%%why`` in a notebook, and a line under a cell that ends in an error of autograd (``add_why``)."""

from typing import Any

from course_utils.why.ask import known_error, why
from course_utils.why.backward import first_bad
from course_utils.why.watch import watch_why

_HINT = "An error of autograd: `why()` in the next cell says more; with `%%why` above this one, it names the lines too."


def add_why(ipython: Any) -> None:
    """Adds the magics ``%why`` and ``%%why`` to a running IPython, and the line under a cell that fails.

    ``%why`` is ``why()``, and ``%why model.weight, loss`` is ``why(model.weight, loss)``. ``%%why`` above a cell runs
    it inside ``watch_why``, and answers below it: why it failed, what made its first NaN, or what its line asks for.
    """
    from IPython.core.magic import output_can_be_silenced
    from IPython.display import display

    def ask(line: str) -> Any:
        return ipython.ev(f"__import__('importlib').import_module('course_utils.why.ask').why({line})")

    @output_can_be_silenced
    def magic(line: str, cell: str | None = None) -> Any:
        if cell is None:
            return ask(line)
        with watch_why() as watch:
            result = run_as_it_stands(ipython, cell, "%%why")
        error, bad = result.error_in_exec or result.error_before_exec, first_bad(watch.log)
        if error is not None:
            if known_error(error)[1] is not None:
                display(why(error))
            ipython.showtraceback = lambda *args, **kwargs: vars(ipython).pop("showtraceback")  # it was shown
            raise error
        return ask(line) if line.strip() else bad.done() if bad is not None else None

    def hint(result: Any) -> None:
        error = result.error_in_exec
        if error is not None and "%%why" not in result.info.raw_cell and known_error(error)[1] is not None:
            print(_HINT)

    ipython.register_magic_function(magic, "line_cell", "why")
    ipython.events.register("post_run_cell", hint)


def run_as_it_stands(ipython: Any, cell: str, magic: str) -> Any:
    """IPython's result of the cell below a magic, whose lines are those of the cell as it stands, under its number."""
    first = "" if cell.lstrip().startswith("%%") else f"# {magic}\n"
    numbers, before = getattr(ipython.compile, "_filename_map", {}).values(), ipython.execution_count
    try:  # IPython counts what a magic runs as the next cell
        ipython.execution_count = max(numbers, default=before)
        return ipython.run_cell(first + cell)
    finally:
        ipython.execution_count = before
