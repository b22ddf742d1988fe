"""Programs with a mistake, as people write them: ``why`` names cause, lines and cure, alone and watched."""

from pathlib import Path

import pytest
import torch

from tests.why.drive import PROGRAMS, misses

pytestmark = pytest.mark.filterwarnings("ignore")  # the programs' own


@pytest.mark.parametrize("watched", [False, True], ids=["after", "watched"])
@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_cause_lines_and_cure_are_named(path: Path, watched: bool) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert not misses(path, watched)
    finally:
        torch.set_num_threads(threads)
