"""The wall: whatever a submission does, the machine, the course and other students' work stay as they were, and nothing
of it lives on when it has been graded. Tried with the command as a teacher runs it, its limits as they are.

Every try is a cell of a submission that prints what came of it. Skipped where there is no bubblewrap; CI installs it.
"""

import hashlib
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from course_utils.classroom.sandbox.supervisor import Ended, Supervisor
from tests.classroom.handed_in import DETACH, NEEDS_SANDBOX, ROOT, Notebook
from tests.classroom.own import HW1, put_source
from tests.classroom.teacher import row

pytestmark = [*NEEDS_SANDBOX]
SECONDS = f"98765.{os.getpid()}"  # how long a process sleeps that must not outlive: nobody else's does

LEAVES = """
import builtins, os, subprocess, torch
left = []
for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "/run", "/var", "/home", "/"):
    try:
        open(os.path.join(folder, "left"), "w").write("answer")
        left.append(folder)
    except OSError:
        pass
builtins.left = torch.left = os.environ["LEFT"] = "answer"
subprocess.Popen(["setsid", "sleep", "%s"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    os.execvp("sleep", ["sleep", "%s"])
print(left)
""" % (SECONDS, SECONDS)  # noqa: UP031  braces of Python's
LOOKS = """
import builtins, os, torch
places = [f"/{name}" for name in os.listdir("/") if name not in ("proc", "sys", "usr", "work", "root", "opt")]
files = [os.path.join(root, name) for place in places for root, _, names in os.walk(place) for name in names]
print([path for path in files if path.endswith("/left")], hasattr(builtins, "left"), hasattr(torch, "left"))
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
print("LEFT" in os.environ, others)
"""
SURROUNDINGS = "import os\nprint('MY_TOKEN' in os.environ, os.path.expanduser('~'), os.getcwd())"
WRITES = """
import os
found = []
for folder in %r:
    try:
        with open(os.path.join(folder, "written"), "w"):
            found.append(folder)
    except OSError:
        pass
for setting in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/1/oom_score_adj"):
    try:
        with open(setting, "w") as file:
            file.write("1")
        found.append(setting)
    except OSError:
        pass
print(found)
"""
RIGHTS = """
import subprocess
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print([int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")], status["NoNewPrivs"].strip())
quiet = dict(stderr=subprocess.DEVNULL)
print(subprocess.run(["unshare", "--user", "true"], **quiet).returncode > 0)
print(subprocess.run(["mount", "-t", "tmpfs", "none", "/tmp"], **quiet).returncode > 0)
"""
KEYS = """
import subprocess, sys
for number in %r:
    code = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
    code += f"print(libc.syscall({number}, b'user', b'left', b'answer', 6, -4), ctypes.get_errno(), libc.getpid() > 0)"
    print(subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True).stdout, end="")
"""
BOMB = "import subprocess\nsubprocess.run(['sh', '-c', 'bomb() { sleep 0.1; bomb & bomb & wait; }; bomb'])"
MANY = "import subprocess\nfor _ in range(100):\n    subprocess.Popen(['sleep', '60'])\nsubprocess.run(['sleep', '5'])"
FILLS = """
import os, socket
sizes = {}
for folder in ("/tmp", "/dev/shm", os.path.expanduser("~")):
    try:
        with open(f"{folder}/large", "wb") as file:
            for _ in range(200):
                file.write(bytes(2**20))
                sizes[folder] = file.tell()
    except OSError:
        pass
    os.truncate(f"{folder}/large", 0)
kept = []
try:
    while len(kept) < 10_000:
        kept += socket.socketpair()
except OSError:
    pass
print(len(sizes), max(sizes.values()) <= 2**26, len(kept) < 10_000)
del kept
"""
DEEP = "import os\ntry:\n    while True:\n        os.mkdir('x')\n        os.chdir('x')\nexcept OSError:\n    pass"


def attempt(code):
    """A cell that tries something and prints the kind of error, or DONE."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    return f"try:\n{body}\n    print('DONE')\nexcept BaseException as error:\n    print(type(error).__name__)"


def hand_in(teacher, student, *cells):
    """A notebook with a right answer and a known mistake, and these cells before both."""
    notebook = Notebook().solve("snapshot").write(mean_loss="def mean_loss(*given):\n    return 0")
    for cell in reversed(cells):
        notebook.add(cell)
    teacher.put(student, notebook.bytes())


class Wall:
    """The course after the tries of several students, one after the other, and what their cells showed."""

    def __init__(self, teacher, port, at_night):
        self.teacher, self.port = teacher, port
        course = teacher.root
        self.secrets = [
            *(course / "gradebook.db", teacher.notebook("source"), teacher.notebook("submitted", student="a-looks")),
            *(ROOT / "notebooks/solutions/03_detach.ipynb", ROOT / "tests/lessons/right/detach.py"),
            *(ROOT / "course_utils/lessons/detach" / f"mean_loss.{ending}" for ending in ("py", "toml")),
            *(Path("/etc/passwd"), Path("/etc/shadow"), Path.home() / ".bashrc"),
        ]
        places = ["/", "/usr", "/etc", "/dev", "/proc/sys/kernel", "/home", sys.prefix, str(course)]
        places += [str(ROOT)] * (not ROOT.is_relative_to("/tmp"))  # below /tmp it is in the sandbox's own empty folder
        numbers = {"x86_64": (248, 250, 101, 310), "aarch64": (217, 219, 117, 270)}[platform.machine()]
        network = [("127.0.0.1", port), ("1.1.1.1", 53)]
        tries = {
            "a-looks": [LOOKS],
            "b-leaves": [LEAVES],
            "c-looks": [LOOKS, SURROUNDINGS, attempt("import os\nos.kill(os.getppid() or 2, 9)\nos.kill(-1, 9)")],
            "d-tries": [
                *(attempt(f"open({str(path)!r}).read()") for path in self.secrets),
                *(WRITES % places, RIGHTS, KEYS % (numbers,)),
                *(attempt(f"import socket\nsocket.create_connection({place}, timeout=2)") for place in network),
                attempt("import socket\nsocket.getaddrinfo('pypi.org', 443)"),
            ],
            "g-floods": [BOMB, FILLS, DEEP, "print('x' * 10**8)"],
            "h-starts": [MANY],
            "i-takes": [attempt("bytearray(50 * 2**30)"), attempt("import torch\ntorch.empty(50 * 2**30)")],
            "j-looks": [LOOKS],
        }
        self.tries = {student: cells for student, cells in tries.items() if at_night or student < "g"}  # without floods
        for student, cells in self.tries.items():
            hand_in(teacher, student, *cells)
        self.before = self.files()
        self.printed = teacher.run("grade", DETACH, "--workers", "1")

    def files(self):
        """What must stay as it is, by its content."""
        folders = [self.teacher.root / step for step in ("source", "release", "submitted")]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def shown(self, student):
        """What each cell of the student's own showed."""
        cells = [cell for name, cell in self.teacher.cells(student).items() if name.startswith("added")]
        return ["".join(map(text_of, cell["outputs"])) for cell in cells]


def text_of(output):
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}\n"
    return "".join(output.get("text") or output["data"].get("text/plain", ""))


@pytest.fixture(scope="module")
def wall(request, released_course, tmp_path_factory):
    at_night = request.config.getoption("--tier") == "nightly"
    os.environ["MY_TOKEN"] = "secret"
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        wall = Wall(released_course.copy(tmp_path_factory.mktemp("wall") / "class"), server.getsockname()[1], at_night)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    del os.environ["MY_TOKEN"]
    return wall


def test_right_answers_keep_their_points_and_wrong_ones_get_none(wall):
    for student in (path.name for path in (wall.teacher.root / "autograded").iterdir()):
        assert re.search(r" 1 passed .* 0 wrong ", row(wall.printed, student)), wall.printed
    assert "Look at these by hand" not in wall.printed


def test_other_students_work_sources_gradebook_and_what_judges_cannot_be_read(wall):
    shown = wall.shown("d-tries")[: len(wall.secrets)]
    unseen = {path for path, said in zip(wall.secrets, shown, strict=True) if said == "FileNotFoundError\n"}
    assert unseen == set(wall.secrets)


def test_nothing_outside_can_be_written_and_no_right_can_be_had(wall):
    written, rights, keys = wall.shown("d-tries")[-6:-3]
    assert written == "[]\n" and wall.files() == wall.before
    assert rights == "[0, 0, 0] 1\nTrue\nTrue\n"
    assert keys == "-1 1 True\n" * 4, "EPERM: nothing is left in the kernel's keyrings, and other calls go on"


def test_there_is_no_network(wall):
    assert wall.shown("d-tries")[-3:] == ["ConnectionRefusedError\n", "OSError\n", "gaierror\n"]


def test_nothing_is_left_for_the_next_and_nothing_outlives(wall):
    assert wall.shown("b-leaves") == ["['/tmp', '/dev/shm', '/home/student']\n"]
    looked = [wall.shown(student)[0] for student in wall.tries if student.endswith("looks")]
    assert set(looked) == {"[] False False\nFalse []\n"}
    assert wall.shown("c-looks")[1:] == ["False /home/student /home/student\n", "ProcessLookupError\n"]
    until = time.monotonic() + 20
    while any(SECONDS in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < until, "it is still there"
        time.sleep(0.05)


@pytest.mark.nightly
def test_floods_of_processes_output_files_and_memory_end_at_their_limits(wall):
    bomb, files, deep, output = wall.shown("g-floods")
    assert "more characters" in output and len(output) < 2**20 + 1000
    assert files == "3 True True\n" and bomb == deep == ""
    wall.teacher.run("feedback", DETACH, "--student", "h-starts")
    assert "more than 64 processes" in wall.teacher.page("h-starts")
    assert wall.shown("i-takes") == ["MemoryError\n", "RuntimeError\n"]


def test_without_a_sandbox_nothing_is_graded_or_tried_and_it_is_said_what_to_install_or_to_allow(
    teacher, monkeypatch, tmp_path
):
    for student in ("ada", "bob"):
        hand_in(teacher, student)
    put_source(teacher)
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho setting up uid map >&2\nexit 1\n")
    program.chmod(0o755)
    for place, why in {"/nowhere": "bwrap was looked for", f"{tmp_path}:{os.environ['PATH']}": "uid map"}.items():
        monkeypatch.setenv("PATH", place)
        said = teacher.run("grade", DETACH, status=1)
        assert why in said and "dnf install bubblewrap" in said and "apparmor_restrict_unprivileged_userns" in said
        assert not (teacher.root / "autograded").exists() and "Without a result" not in said
        said = teacher.run("release", HW1)
        assert "Tests of your own are not tried" in said and why in said and f"released {HW1}: 11 points" in said


@pytest.mark.nightly
def test_packages_below_a_folder_that_is_emptied_stay_in_sight(teacher):
    # An environment in /tmp, as CI makes one.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = Path(folder) / "lib" / version / "site-packages"
        packages.mkdir(parents=True)
        (packages / "lately.py").write_text("value = 7")
        (Path(folder) / "secret").write_text("no")
        cells = ["import lately\nprint(lately.value)", attempt(f"open('{folder}/secret')")]
        hand_in(teacher, "ada", *cells, attempt(f"open('{packages}/x', 'w')"))
        command = [sys.executable, "-m", "course_utils.classroom", "grade", DETACH, "--course", str(teacher.root)]
        environment = {"PYTHONUSERBASE": folder, "PYTHONPATH": f"{packages}:{ROOT}"}
        subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL)
    cells = [cell for name, cell in teacher.cells("ada").items() if name.startswith("added")]
    assert ["".join(map(text_of, cell["outputs"])) for cell in cells] == ["7\n", "FileNotFoundError\n", "OSError\n"]


def test_what_a_check_says_as_it_ends_is_heard_whenever_its_process_is_gone(monkeypatch):
    said, heard = {"body": "passed"}, iter([False, True, True])  # nothing when it is waited for, then all at once
    supervisor = object.__new__(Supervisor)
    supervisor.pid, supervisor._count, supervisor._gone = os.getpid(), lambda processes: None, lambda: Ended("", "")
    supervisor._student = SimpleNamespace(poll=lambda seconds: next(heard), receive=lambda: said)
    stopped = {os.getpid(): ["T", *"0" * 20]}  # of all processes the one that waits is left
    monkeypatch.setattr("course_utils.classroom.sandbox.supervisor._processes", lambda: stopped)
    assert supervisor._ask(None, 5.0, in_check=True)[0] == said
