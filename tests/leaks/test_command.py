"""``autograd-control leaks``, in processes of its own: forks of one that has imported what the command needs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from course_utils.__main__ import main
from tests import forks
from tests.forks import ended

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LEAK = """
import sys, torch
model, kept = torch.nn.Linear(8, 8), []
for _ in range({calls}):
    kept.append(model(torch.ones(4, 8)))
"""


def start(folder: Path, script: str, *words: str) -> BaseProcess:
    (folder / "script.py").write_text(script, encoding="utf-8")
    return forks.start(folder, "leaks", *words)


def run(folder: Path, script: str, *words: str) -> tuple[int | None, str, str]:
    return ended(folder, start(folder, script, *words))


def signalled(folder: Path, process: BaseProcess, number: int) -> str:
    """What is said by a process that is sent a signal once it is ready, and that ends by it."""
    while "ready\n" not in ((folder / "out").read_text() if (folder / "out").exists() else ""):
        assert process.is_alive(), (folder / "err").read_text()
        time.sleep(0.05)
    os.kill(process.pid, number)
    status, _, err = ended(folder, process)
    assert status == -number
    return err


def test_a_script_runs_as_it_is_with_its_arguments_and_its_exit_code(tmp_path):
    script = LEAK.format(calls=20) + "print(sys.argv[1:], __name__)\nsys.exit(7)\n"
    status, out, err = run(tmp_path, script, "--limit", "64GiB", "script.py", "--after", "3")
    assert (status, out) == (7, "['--after', '3'] __main__\n")
    assert "growing by 256 B per call" in err
    assert "64.0 GiB will be full after " in err
    assert "`kept`, a list of 20, a global, script.py:5" in err


def test_a_module_runs_by_its_name(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys\nprint(__spec__.name, sys.argv[1:])\n")
    status, out, err = run(tmp_path, "", "-m", "package", "-v")
    assert (status, out) == (0, "package.__main__ ['-v']\n")
    assert "no module with parameters was called" in err


def test_out_of_memory_is_reported_with_the_variables_of_the_functions_that_died(tmp_path):
    script = "import torch\n\ndef main():\n    model, kept = torch.nn.Linear(8, 8), []\n    for _ in range(20):\n"
    script += "        kept.append(model(torch.ones(4, 8)))\n    torch.empty(10**15)\n\nmain()\n"
    status, _, err = run(tmp_path, script, "script.py")
    assert status == 1
    assert "== Out of memory" in err
    assert "`kept`, a list of 20 in `main`, script.py:6" in err
    assert "course_utils" not in err.partition("==")[0]  # the traceback is the script's own


# Short naps: a signal that comes just before a system call does not end it, and Python's handler runs after it.
WAITING = "print('ready', flush=True)\nimport time\nwhile True:\n    time.sleep(0.1)\n"


def test_an_interrupt_is_reported_and_ends_the_process_as_python_does(tmp_path):
    process = start(tmp_path, LEAK.format(calls=20) + WAITING, "script.py")
    err = signalled(tmp_path, process, signal.SIGINT)
    assert "== Interrupted" in err and "growing by 256 B per call" in err


def test_a_report_after_so_many_calls_lets_the_script_go_on_unwatched(tmp_path):
    script = LEAK.format(calls=60) + "print(len(kept))\n"
    status, out, err = run(tmp_path, script, "--after", "25", "script.py")
    assert (status, out) == (0, "60\n")
    assert err.count("==") == 1
    assert "After 25 calls" in err and "growing by 256 B per call" in err


def test_a_report_comes_at_sigterm_every_so_many_calls_and_as_data(tmp_path):
    words = "--report-every", "12", "--json", "out.json", "--html", "out.html", "script.py"
    err = signalled(tmp_path, start(tmp_path, LEAK.format(calls=20) + WAITING, *words), signal.SIGTERM)
    assert "== After 12 calls" in err and "== Terminated" in err and "growing by 256 B per call" in err
    told = json.loads((tmp_path / "out.json").read_text())
    assert (told["verdict"], told["calls"]) == ("growing", 20)
    assert told["evaluation"]["findings"][0]["rate"]["nbytes"] == 256
    assert "<section" in (tmp_path / "out.html").read_text()


def test_a_limit_ends_the_script_with_a_report(tmp_path):
    status, out, err = run(tmp_path, LEAK.format(calls=200) + "print('done')\n", "--limit", "1MiB", "script.py")
    assert (status, out) == (1, "")
    assert "== Ended: the process holds 1.0 MiB or more" in err


def test_growth_can_be_the_exit_code_and_a_loop_needs_no_model(tmp_path):
    steps = "import torch\nkept = []\n\n\nclass Meter:\n    def update(self, x):\n        kept.append(x * 2)\n"
    (tmp_path / "steps.py").write_text(steps, encoding="utf-8")
    script = "import torch, steps\nmeter = steps.Meter()\nfor _ in range(30):\n    meter.update(torch.ones(16))\n"
    status, _, err = run(tmp_path, script, "--fail-on-growth", "script.py")
    assert status == 3, err
    assert "`kept.append(x * 2)` (steps.py:7) keeps a tensor of every call: 64 B per call" in err
    assert "the loop that comes back to script.py:4" in err


@pytest.mark.nightly
def test_data_loader_workers_and_compiled_code_run_to_the_end(tmp_path):
    script = """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    model = torch.nn.Linear(4, 4)
    for fast in (model, torch.compile(model, backend="eager")):
        for (x,) in DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=8, num_workers=2):
            fast(x).sum().backward()
    print("done")
"""
    status, out, err = run(tmp_path, script, "script.py")
    assert (status, out) == (0, "done\n"), err
    assert "With backward: steady." in err


@pytest.mark.nightly
def test_torchrun_with_one_process_says_the_same(tmp_path):
    script = """
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
model, kept = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8)), []
for _ in range(20):
    kept.append(model(torch.ones(4, 8)))
torch.distributed.destroy_process_group()
"""
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    command += ["-m", "course_utils.leaks", "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "`kept`, a list of 20, a global, script.py:6" in done.stderr
    assert re.search(r"== At the end \(rank 0, process \d+\)\n", done.stderr)


@pytest.mark.parametrize("words", [["nowhere.py"], ["-m", "nowhere"], [], ["--limit", "much", "script.py"]])
def test_what_cannot_be_run_is_refused(tmp_path, monkeypatch, capsys, words):
    (tmp_path / "script.py").write_text("")
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["leaks", *words])
    except SystemExit as refused:  # by argparse
        status = refused.code
    said = capsys.readouterr()
    assert (status, said.out) == (2, "") and said.err
