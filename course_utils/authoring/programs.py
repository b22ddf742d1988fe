"""The programs that show misconceptions and errors: each is run by itself (``printed``), and what it prints is kept
(``store``)."""

import io
import re
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from course_utils.authoring.execute import context
from course_utils.base.expected import sentences, without_addresses
from course_utils.base.files import write_whole

# In a whole message: where PyTorch was built, and in a traceback the frames of whoever runs the program.
_NOT_THE_PROGRAM_S = re.compile(
    r" ?\(Triggered internally at [^)]*\)|^  File \"(?!<program>).*\n(?:    .*\n)*", re.MULTILINE
)
_PROGRAM = re.compile(r"^program = '''(.*?)'''\n(?:prints = '''.*?'''\n)?", re.DOTALL | re.MULTILINE)
LONGEST_S = 60.0  # for one program on a busy machine; each takes well under a second


def printed(programs: Sequence[str], whole: bool = False) -> list[str]:
    """What each program prints. One that raises ends with the error, as ``RuntimeError: first sentence``; a warning
    stands where it came, in the same form.

    Every program has a process of its own, so that none sees another's settings, hooks or garbage.

    Args:
        programs: complete programs.
        whole: errors and warnings are shown with their whole messages, but for addresses and places elsewhere.

    Raises:
        multiprocessing.TimeoutError: a program did not come to an end, or ended its process.
    """
    with context().Pool(1, maxtasksperchild=1) as processes:
        shown = processes.starmap_async(_run, [(program, whole) for program in programs], chunksize=1)
        return shown.get(LONGEST_S * (1 + len(programs)))


def _run(program: str, whole: bool) -> str:
    def line(kind: type, message: object) -> str:
        text = _NOT_THE_PROGRAM_S.sub("", without_addresses(str(message))) if whole else sentences(message)[0]
        return f"{kind.__name__}: {text}".rstrip()

    output = io.StringIO()
    with redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *rest: print(line(category, message))
        try:
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        except Exception as error:
            print(line(type(error), error))
    return "\n".join(line.rstrip() for line in output.getvalue().strip("\n").splitlines())


def store(path: Path, whole: bool = False) -> bool:
    """Runs the programs of a text file and writes below each what it prints, ``whole`` as for ``printed``. All else in
    the file stays as its author wrote it.

    Returns:
        whether one of them prints something else than before.
    """
    text = path.read_text(encoding="utf-8")
    shown = iter(printed([found[1].lstrip("\n") for found in _PROGRAM.finditer(text)], whole))
    told = _PROGRAM.sub(lambda found: f"program = '''{found[1]}'''\nprints = '''\n{next(shown)}\n'''\n", text)
    if told != text:
        write_whole(path, told)
    return told != text
