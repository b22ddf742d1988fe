"""``autograd-control why script.py``: runs a script, and says why where autograd's error ends it (``main``)."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from course_utils.base.user_code import exit_code, load_script, print_error
from course_utils.why.ask import why
from course_utils.why.backward import first_bad
from course_utils.why.watch import watch_why


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a script under a watch. What it prints and its exit code are its own; the reason is printed on stderr.

    Args:
        arguments: the script (or ``-m`` and a module), then its own arguments; by default the command line's.

    Returns:
        The script's exit code.
    """
    parser = argparse.ArgumentParser(
        prog="autograd-control why",
        description="Runs a script as it is and, where an error of autograd ends it, says on stderr which of its lines"
        " made the tensor, edited it, freed the graph, or cut the history, and what to write instead.",
        usage="%(prog)s script.py [arguments of the script]\n       %(prog)s -m module [arguments]",
    )
    _, code, module = load_script(parser, arguments)
    own_main, sys.modules["__main__"] = sys.modules["__main__"], module
    own_main.__dict__["_script"] = module  # kept until the process ends, as a script's own variables are
    try:
        with watch_why() as watch:
            exec(code, vars(module))
    except SystemExit as error:
        return exit_code(error)
    except KeyboardInterrupt as error:
        print_error(error)
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:
        print_error(error)
        reason = why(error)
        if reason.page:
            print(f"\n== Why?\n{reason}", file=sys.stderr, flush=True)
        return 1
    if (bad := first_bad(watch.log)) is not None:
        print(f"\n== Why?\n{bad.done()}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
