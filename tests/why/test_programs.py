"""Programs with a mistake, as people write them: ``why`` names cause, lines and cure under a watch, and alone nothing
that is not so.
"""

import pytest
import torch

from tests.why.drive import PROGRAMS, misses, programs

pytestmark = pytest.mark.filterwarnings("ignore")  # the programs' own
EVERY = [program for table in sorted(PROGRAMS.glob("*.txt")) for program in programs(table.stem)]


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
@pytest.mark.parametrize("program", EVERY, ids=lambda program: program.name)
def test_cause_lines_and_cure_are_named(program, watched: bool) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert not misses(program, watched)
    finally:
        torch.set_num_threads(threads)
