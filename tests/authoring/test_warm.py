"""Forks of a warm Python: what they have imported, how they end, and that none outlives whoever asked for it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from course_utils.authoring import execute

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere kernels are started as they are"),
]
KERNEL = """
from unittest import mock
from jupyter_client.manager import start_new_kernel
from course_utils.authoring import execute
with mock.patch("jupyter_client.provisioning.local_provisioner.launch_kernel", execute.launch_kernel):
    manager, client = start_new_kernel()
print(manager.provisioner.pid, flush=True)
import os; os._exit(0)  # nothing is tidied up
"""


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    monkeypatch.setattr("jupyter_client.provisioning.local_provisioner.launch_kernel", execute.launch_kernel)
    manager, client = start_new_kernel(env=os.environ | {"COLOUR": "green"}, cwd=str(tmp_path))
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def value(client, expression: str):
    reply = client.execute("import os, sys", user_expressions={"": expression}, reply=True, timeout=60)
    return eval(reply["content"]["user_expressions"][""]["data"]["text/plain"])


def test_a_kernel_is_a_process_of_its_own_where_it_was_asked_for_with_torch_and_without_a_figure(kernel, tmp_path):
    manager, client = kernel
    pid = manager.provisioner.pid
    assert value(client, "os.getpid(), os.getpgid(0)") == (pid, pid)
    assert value(client, "os.getcwd(), os.environ['COLOUR']") == (str(tmp_path), "green")
    assert value(client, "[name for name in ('torch', 'matplotlib.pyplot') if name in sys.modules]") == ["torch"]


def test_a_kernel_that_leaves_is_noticed(kernel):
    manager, client = kernel
    client.execute("import os; os._exit(3)")
    assert manager.provisioner.process.wait(60) == 3 and not manager.is_alive()


@pytest.mark.nightly
def test_a_kernel_ends_with_the_process_that_asked_for_it():
    done = subprocess.run([sys.executable, "-c", KERNEL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    place = Path(f"/proc/{done.stdout.strip()}/stat")
    for _ in range(600):
        if not place.exists() or place.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the kernel is still there")
