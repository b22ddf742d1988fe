"""``autograd-control leaks script.py``: runs a script and says what in it leaks (``main``)."""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType

import torch

from course_utils.base.text import format_bytes
from course_utils.base.user_code import exit_code, load_script, print_error
from course_utils.leaks.watch import resident, watch_growth

GROWS = 3
"""The exit code where ``--fail-on-growth`` was given, and something grows in a script that ended well."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a script under a watch, and prints the report to stderr.

    Args:
        arguments: the options, then the script (or ``-m`` and a module), then its own arguments; by default the
            command line's.

    Returns:
        The script's exit code, or ``GROWS``. Where it was interrupted or terminated, the process ends by that signal.
    """
    options, code, module = load_script(_parser(), arguments)
    watch = watch_growth(limit_bytes=options.limit, warm_up=options.warm_up)

    def say(title: str) -> None:
        report, rank = watch.report(), os.environ.get("RANK")
        which = "" if rank is None else f" (rank {rank}, process {os.getpid()})"
        print(f"\n== {title}{which}\n{report}", file=sys.stderr, flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(report.to_dict(), indent=1, default=str), encoding="utf-8")
        if options.html:
            page = f'<!doctype html><meta charset="utf-8"><title>Memory</title>{report._repr_html_()}'
            Path(options.html).write_text(page, encoding="utf-8")

    def at_call(call: int) -> None:
        if options.limit and resident() >= options.limit:
            raise _Ended(f"Ended: the process holds {format_bytes(options.limit)} or more", 1, 0)
        if options.after and call > options.after:
            say(f"After {options.after} calls; the script goes on, no longer watched")
            watch.stop()
        elif options.report_every and call > 1 and call % options.report_every == 1:
            say(f"After {call - 1} calls")

    watch.at_call = at_call
    status = _run(code, module, watch, say)
    grows = options.fail_on_growth and watch.report().verdict == "growing"
    return GROWS if grows and not status else status


class _Ended(SystemExit):
    """The process holds as much as ``--limit`` says, or somebody asked it to end: a title, a status, a signal or 0."""


def _terminated(number: int, frame: object) -> None:
    raise _Ended("Terminated", 128 + number, number)


def _run(code: CodeType, module: ModuleType, watch: watch_growth, say: Callable[[str], None]) -> int:
    own_main, sys.modules["__main__"] = sys.modules["__main__"], module
    title, status, ended_by = "At the end", 0, 0
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)
    try:
        with watch:
            exec(code, vars(module))
    except _Ended as end:
        title, status, ended_by = end.args
    except SystemExit as error:
        status = exit_code(error)
    except KeyboardInterrupt as error:
        title, status, ended_by = "Interrupted", 130, signal.SIGINT
        print_error(error)
    except BaseException as error:
        is_full = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
        title, status = "Out of memory" if is_full else "After an error", 1
        print_error(error)
    if not watch.stopped:
        with contextlib.suppress(KeyboardInterrupt):
            say(title)
    sys.modules["__main__"] = own_main
    own_main.__dict__["_script"] = module  # kept until the process ends, as a script's own variables are
    if ended_by:
        sys.stdout.flush()
        signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    return status


def _size(text: str) -> int:
    written = re.fullmatch(r"(\d*\.?\d+)\s*([kmgt]?)i?b?", text.strip().lower())
    nbytes = int(float(written[1]) * 1024 ** "_kmgt".index(written[2] or "_")) if written else 0
    if nbytes <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory; write 8GiB, 512MiB or a number of bytes")
    return nbytes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autograd-control leaks",
        description="Runs a training script as it is and says, on stderr, whether memory grows from one call of its"
        " model to the next, which line makes what stays, and which line and name keep it.",
        epilog="Also at Ctrl-C, at SIGTERM, and at an out-of-memory error.",
        usage="%(prog)s [options] script.py [arguments of the script]\n       %(prog)s [options] -m module [arguments]",
    )
    parser.add_argument("--after", type=int, metavar="N", help="report after N calls, then stop watching")
    parser.add_argument("--report-every", type=int, metavar="N", help="report every N calls, too")
    parser.add_argument("--limit", type=_size, metavar="SIZE", help="end the script, with a report, when the process"
                        " holds so much, as in 8GiB, and say before when that will be")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write the report there too, as data")
    parser.add_argument("--html", metavar="FILE", help="write the report there too, as a card")
    parser.add_argument("--fail-on-growth", action="store_true", help=f"exit with {GROWS} where something grows")
    parser.add_argument("--warm-up", type=int, default=3, metavar="N", help="do not judge the first N calls (3)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
