"""Each misconception is shown by a short program, and the program prints what is stored beside it."""

import ast
import html
import re
import textwrap

import pytest

from course_utils.authoring.programs import printed, store
from course_utils.checks.misconceptions import GENERAL
from course_utils.checks.score import PROGRAM, program
from tests.lessons.loaded import LOADED
from tests.lessons.test_misconceptions import HOMES

EVERY = HOMES | {f"every/exercise/{key}": misconception for key, misconception in GENERAL.items()}
SHOWN = {home: misconception for home, misconception in EVERY.items() if misconception.program}


@pytest.mark.slow
@pytest.mark.parametrize("lesson", ["every", *LOADED])
def test_its_programs_print_what_is_stored(lesson):
    shown = {home: one for home, one in SHOWN.items() if home.startswith(f"{lesson}/")}
    found = dict(zip(shown, printed([one.program for one in shown.values()]), strict=True))
    stored = {home: one.prints for home, one in shown.items()}
    new = "".join(
        f"\n{home} prints:\n{found[home]}\nstored is:\n{stored[home]}\n"
        for home in shown
        if found[home] != stored[home]
    )
    if new:
        told = f"Where this is right, store it: python -m course_utils.authoring programs {lesson}"
        pytest.fail(f"{new}\n{told}", pytrace=False)


@pytest.mark.parametrize("home", SHOWN)
def test_a_program_is_short_and_says_something(home):
    lines = SHOWN[home].program.splitlines()
    assert 1 <= len(lines) <= 8, f"a program has one line to eight, this one {len(lines)}"
    long = [line for line in lines if len(line) > 88]
    assert not long, "a card is 88 characters wide in a terminal; break these lines"
    assert SHOWN[home].prints, "it prints nothing, so it shows nothing"


@pytest.mark.parametrize("home", SHOWN)
def test_a_program_is_the_same_when_it_is_copied_from_a_card(home):
    one = SHOWN[home]
    card = program(one)
    (in_html, _) = re.findall(r"<pre[^>]*>(.*?)</pre>", card.html, re.DOTALL)
    in_text = card.text("    ").split(f"{PROGRAM}:\n")[1].split("\n      It prints:\n")[0]
    for copied in (html.unescape(in_html), textwrap.dedent(in_text)):
        assert ast.dump(ast.parse(copied)) == ast.dump(ast.parse(one.program))


def test_every_program_is_run_by_itself_and_ends_with_what_it_raised():
    programs = [
        "import torch\ntorch.set_grad_enabled(False)\nprint(1)",
        "import torch\nprint(torch.is_grad_enabled())\nimport warnings\nwarnings.warn('Old way. Use the new one.')",
        "print(1)\nraise ValueError('No batches. Give some.')",
    ]
    assert printed(programs) == ["1", "True\nUserWarning: Old way", "1\nValueError: No batches"]


def test_what_a_program_prints_is_kept_beside_it_and_nothing_else_changes(tmp_path):
    path = tmp_path / "task.toml"
    before = "points = 1  # few\n\n[misconceptions.a]\nname = \"x\"\nprogram = '''\nprint(1)\n'''\n"
    after = "\n[misconceptions.\"b c\"]\nname = \"y\"\nprogram = '''\nprint(2)\n'''\nprints = '''\n2\n'''\n"
    path.write_text(before + after, encoding="utf-8")
    assert store(path)
    assert path.read_text(encoding="utf-8") == before + "prints = '''\n1\n'''\n" + after
    assert not store(path)
