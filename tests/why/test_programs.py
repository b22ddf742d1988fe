"""Programs with a mistake, as people write them: ``why`` names cause, lines and cure under a watch, and alone nothing
that is not so.
"""

import pytest

from tests.why.drive import PROGRAMS, misses, programs

# The programs have warnings of their own.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("one_thread")]
# Where a process group is given up while gloo still works, its end waits for a thread that waits for Python: seen once.
EVERY = [
    pytest.param(program, marks=pytest.mark.nightly if "process_group" in program.text else ())
    for table in sorted(PROGRAMS.glob("*.txt"))
    for program in programs(table.stem)
]


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
@pytest.mark.parametrize("program", EVERY, ids=lambda program: program.name)
def test_cause_lines_and_cure_are_named(program, watched: bool) -> None:
    assert not misses(program, watched)
