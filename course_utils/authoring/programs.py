"""The programs that show misconceptions and errors: each is run by itself (``printed``), what it prints is kept
(``store``, ``store_error``)."""

import io
import re
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from course_utils.authoring.warm import context
from course_utils.base.expected import sentences, without_addresses
from course_utils.base.files import read_toml, write_whole

# In a whole message: where PyTorch was built, and in a traceback the frames of whoever runs the program.
_NOT_THE_PROGRAM_S = re.compile(
    r" ?\(Triggered internally at [^)]*\)|^  File \"(?!<program>).*\n(?:    .*\n)*", re.MULTILINE
)
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
    line = _whole if whole else _line
    output = io.StringIO()
    with redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *rest: print(line(category, message))
        try:
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        except Exception as error:
            print(line(type(error), error))
    return "\n".join(line.rstrip() for line in output.getvalue().strip("\n").splitlines())


def _line(kind: type, message: object) -> str:
    return f"{kind.__name__}: {sentences(message)[0]}"


def _whole(kind: type, message: object) -> str:
    return f"{kind.__name__}: {_NOT_THE_PROGRAM_S.sub('', without_addresses(str(message)))}".rstrip()


def store(path: Path) -> list[str]:
    """Runs the programs of an exercise's text file and writes what they print into it.

    Returns:
        the keys of the misconceptions whose output is new or another one than before.
    """
    text = path.read_text(encoding="utf-8")
    told = read_toml(path).get("misconceptions", {})
    shown = {key: fields for key, fields in told.items() if "program" in fields}
    changed = []
    for key, prints in zip(shown, printed([fields["program"] for fields in shown.values()]), strict=True):
        if shown[key].get("prints", "").strip("\n") != prints:
            changed.append(key)
            text = _replaced(text, key, prints)
    if changed:
        write_whole(path, text)
    return changed


def _replaced(text: str, key: str, prints: str) -> str:
    # Everything else in the file stays as its author wrote it.
    head = re.search(rf'^\[misconceptions\.(?:{re.escape(key)}|"{re.escape(key)}")\]$', text, re.MULTILINE)
    assert head, f"the table of {key!r} is written in another way"
    following = re.compile(r"^\[misconceptions\.", re.MULTILINE).search(text, head.end())
    end = following.start() if following else len(text)
    table = re.sub(r"^prints = '''.*?'''\n", "", text[head.start() : end], flags=re.DOTALL | re.MULTILINE)
    table = table.rstrip("\n") + f"\nprints = '''\n{prints}\n'''\n" + ("\n" if following else "")
    return text[: head.start()] + table + text[end:]


def store_error(path: Path) -> bool:
    """Runs the program of a page in the index of errors and writes what PyTorch says to it into the page's file.

    Returns:
        whether that is something else than before.
    """
    text, page = path.read_text(encoding="utf-8"), read_toml(path)
    (prints,) = printed([page["program"]], whole=True)
    if page.get("prints", "").strip("\n") == prints:
        return False
    text = re.sub(r"^prints = '''.*?'''\n", "", text, flags=re.DOTALL | re.MULTILINE)
    before, program, after = re.split(r"^(program = '''.*?'''\n)", text, maxsplit=1, flags=re.DOTALL | re.MULTILINE)
    write_whole(path, f"{before}{program}prints = '''\n{prints}\n'''\n{after}")
    return True
