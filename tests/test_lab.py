"""JupyterLab as a learner gets it: started for real, without a browser."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from course_utils.workspace.__main__ import lab_command, lab_notes

pytestmark = pytest.mark.slow

PAGE = "/lab/tree/my_notebooks/00_start_here.ipynb"
NOTIFICATIONS = "/lab/api/settings/@jupyterlab/apputils-extension:notification"
ADDRESS = re.compile(r"http://127\S+")
# As root, which JupyterLab refuses by default, the tests have to say that they mean it; elsewhere it changes nothing.
TEST_OPTIONS = ["--no-browser", "--allow-root"]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def fetch(address: str, server: subprocess.Popen) -> str:
    """The page at an address. JupyterLab prints the address a moment before it listens, hence the tries."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as reply:
                return reply.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                raise
            assert server.poll() is None, "JupyterLab ended"


@pytest.mark.nightly  # at a push, the tests in a browser start it
def test_jupyterlab_opens_the_start_page_on_a_free_port_and_asks_nothing(tmp_path: Path, taken_port: int) -> None:
    (tmp_path / "my_notebooks").mkdir()
    (tmp_path / "my_notebooks/00_start_here.ipynb").write_text("{}", encoding="utf-8")
    folders = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    options = [*TEST_OPTIONS, f"--port={taken_port}"]
    command = lab_command(tmp_path, ["my_notebooks/00_start_here.ipynb"], options)
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | folders, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            printed, address = [], None
            while address is None and (line := server.stderr.readline()):  # there is no line more where it dies
                printed.append(line)
                address = ADDRESS.search(line)
            assert address is not None, "JupyterLab printed no address"
            port, page = re.match(r"http://127.0.0.1:(\d+)(/[^?]+)", address[0]).groups()
            html = fetch(address[0], server)
            settings = json.loads(fetch(address[0].replace(PAGE, NOTIFICATIONS), server))
        finally:
            server.terminate()
            server.communicate()
    assert len(printed) < 10, "the address is lost among other lines"
    assert int(port) != taken_port
    assert page == PAGE and "<title>JupyterLab" in html
    # "none", JupyterLab's own default, is a question that pops up over the notebook.
    assert settings["schema"]["properties"]["fetchNews"]["default"] == "false"


def test_lessons_as_cloned_are_opened_where_there_are_no_copies(tmp_path: Path) -> None:
    pages = ["my_notebooks/00_start_here.ipynb", "notebooks/00_start_here.ipynb"]
    assert "--LabApp.default_url=/lab" in lab_command(tmp_path, pages)
    for page in reversed(pages):
        (tmp_path / page).parent.mkdir()
        (tmp_path / page).write_text("{}", encoding="utf-8")
        assert f"--LabApp.default_url=/lab/tree/{page}" in lab_command(tmp_path, pages)


@pytest.mark.parametrize("option", ["--debug", "--log-level=INFO", "--ServerApp.log_level=INFO"])
def test_who_asks_for_a_log_gets_one(tmp_path: Path, option: str) -> None:
    assert not any("ERROR" in part for part in lab_command(tmp_path, [], [option]))
    assert lab_command(tmp_path, [], [option])[-1] == option
    assert any("ERROR" in part for part in lab_command(tmp_path, [], ["--no-browser"]))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no root")
def test_root_is_told_what_to_do_and_nobody_else(monkeypatch) -> None:
    for user, options, told in ((0, [], True), (0, ["--allow-root"], False), (1000, [], False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert any("ARGS=--allow-root" in line for line in lab_notes(options)) is told


def test_being_root_is_not_allowed_by_default(tmp_path: Path) -> None:
    assert not any("allow-root" in part or "allow_root" in part for part in lab_command(tmp_path, []))
