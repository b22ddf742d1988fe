"""What a submission's code tries to do to its surroundings, and cannot.

Every attempt is made by a cell that prints what came of it. Skipped where there is no bubblewrap; CI installs it.
"""

import ast
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from course_utils.classroom.judging.grader import Grader, SandboxMissing
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.sandbox import bubblewrap as sandbox
from tests.classroom.handed_in import NEEDS_SANDBOX, Notebook, impatient, outcomes, released

pytestmark = [*NEEDS_SANDBOX]
ROOT = Path(__file__).resolve().parents[2]
LIMITS = Limits(check_seconds=30.0, processes=16, file_bytes=2**20, output_bytes=20_000, memory_bytes=2**30)


def run(grader, *cells):
    """What each of these added cells showed, and the report. One answer is right, so that there is something to run."""
    notebook = Notebook().solve("snapshot")
    for cell in reversed(cells):
        notebook.add(cell, after="setup")
    report = grader.grade(released(), notebook.bytes(), student="eve", assignment="03_detach")
    shown = [cell["outputs"] for cell in json.loads(report.notebook)["cells"] if cell["id"].startswith("added")]
    return ["".join(map(_text, outputs)) for outputs in shown], report


def _text(output):
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}\n"
    return output.get("text") or output["data"].get("text/plain", "")


def attempt(code):
    """A cell that tries something and prints the kind of error, or DONE."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    return f"try:\n{body}\n    print('DONE')\nexcept BaseException as error:\n    print(type(error).__name__)"


def test_there_is_no_network(grader):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        cells = [
            attempt(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)"),
            attempt("import socket\nsocket.create_connection(('1.1.1.1', 53), timeout=2)"),
            attempt("import socket\nsocket.getaddrinfo('pypi.org', 443)"),
        ]
        shown, report = run(grader, *cells)
    assert shown == ["ConnectionRefusedError\n", "OSError\n", "gaierror\n"]
    assert outcomes(report)["snapshot"] == "passed"
    assert report.reviews == ()


def test_nothing_of_the_teacher_s_can_be_read(grader, tmp_path):
    secrets = [tmp_path / "gradebook.db", tmp_path / "submitted" / "ada" / "03_detach" / "03_detach.ipynb"]
    for path in secrets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    root = Path(__file__).resolve().parents[2]
    secrets += [
        root / "notebooks" / "solutions" / "03_detach.ipynb",
        root / "tests" / "lessons" / "right" / "detach.py",
    ]
    lesson = root / "course_utils" / "lessons" / "detach"
    secrets += [lesson / "mean_loss.py", lesson / "mean_loss.toml", Path("/etc/passwd"), Path("/etc/shadow")]
    assert all(path.exists() for path in secrets)
    shown, _ = run(grader, *(attempt(f"open({str(path)!r}).read()") for path in secrets))
    assert shown == ["FileNotFoundError\n"] * len(secrets)


def test_the_environment_is_clean(grader, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret")
    shown, _ = run(grader, "import os\nprint('MY_TOKEN' in os.environ, os.path.expanduser('~'), os.getcwd())")
    assert shown == ["False /home/student /home/student\n"]


def test_nothing_outside_can_be_written(grader):
    places = ["/", "/usr", "/etc", "/dev", "/proc/sys/kernel", "/home", sys.prefix, str(sandbox.PACKAGE)]
    cell = f"""
import os
found = []
for folder in {places!r}:
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
    shown, _ = run(grader, cell)
    assert shown == ["[]\n"]
    assert not (sandbox.PACKAGE / "written").exists()


def test_there_are_no_rights_to_get_back(grader):
    cells = [
        "print([line.split()[1] for line in open('/proc/self/status') if line[:6] in ('CapEff', 'CapPrm', 'CapBnd')])",
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs')])",
        "import subprocess\nprint(subprocess.run(['unshare', '--user', 'true'], stderr=subprocess.DEVNULL).returncode)",
        "print(subprocess.run(['mount', '-t', 'tmpfs', 'none', '/tmp'], stderr=subprocess.DEVNULL).returncode > 0)",
    ]
    shown, _ = run(grader, *cells)
    assert shown == [f"{['0' * 16] * 3}\n", "['1']\n", "1\n", "True\n"]


def test_nothing_can_be_left_in_the_kernel_s_keyrings(grader):
    code = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
    code += "print(libc.syscall({number}, b'user', b'left', b'answer', 6, -4), ctypes.get_errno(), libc.getpid() > 0)"
    numbers = {"x86_64": (248, 250, 101, 310), "aarch64": (217, 219, 117, 270)}[platform.machine()]
    cells = ["import subprocess, sys"]
    for number in numbers:
        command = ["-I", "-c", code.format(number=number)]
        cells.append(
            f"print(subprocess.run([sys.executable, *{command}], capture_output=True, text=True).stdout, end='')"
        )
    shown, _ = run(grader, *cells)
    assert shown[1:] == ["-1 1 True\n"] * 4  # EPERM, and other calls go on


def test_no_other_process_can_be_seen_or_signalled(grader):
    cells = [
        "import os\nprint(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()) == [1, os.getpid()])",
        attempt("import os, signal\nos.kill(os.getppid() or 2, signal.SIGKILL)"),
        attempt("import os, signal\nos.kill(-1, signal.SIGKILL)"),
    ]
    shown, report = run(grader, *cells)
    # The first process is the warm Python, to which the kernel hands no signal from within.
    assert shown == ["True\n", "DONE\n", "ProcessLookupError\n"]
    assert outcomes(report)["snapshot"] == "passed"
    assert report.reviews == ()


def test_a_fork_bomb_ends_itself_alone(grader):
    bomb = "import subprocess\nsubprocess.run(['sh', '-c', 'bomb() { bomb | bomb & }; bomb; sleep 3'])"
    _, report = run(grader, bomb)
    assert outcomes(report)["snapshot"] == "passed"


def test_too_many_processes_end_the_cell_that_started_them(grader):
    many = (
        "import subprocess\nfor _ in range(30):\n    subprocess.Popen(['sleep', '60'])\nsubprocess.run(['sleep', '5'])"
    )
    _, report = run(grader, many)
    assert outcomes(report)["snapshot"] == "passed"
    assert any("more than 16 processes" in note for note in report.notes), report.notes


def test_a_process_that_a_cell_forks_speaks_for_nobody(grader):
    shown, report = run(grader, attempt("import os\nos.fork()"), "print('next')")
    assert shown == ["DONE\n", "next\n"]
    assert outcomes(report)["snapshot"] == "passed"


def test_fifty_gigabytes_are_refused(grader):
    cells = [attempt("import torch\ntorch.empty(50 * 2**30, dtype=torch.uint8)"), attempt("bytearray(50 * 2**30)")]
    shown, report = run(grader, *cells)
    assert shown == ["RuntimeError\n", "MemoryError\n"]
    assert outcomes(report)["snapshot"] == "passed"


def test_endless_output_is_cut_and_costs_the_cell_alone(grader):
    with impatient(grader):
        cells = ["while True:\n    print('x' * 1000)", "import os\nfor _ in range(100):\n    os.write(1, b'x' * 9)"]
        shown, report = run(grader, *cells)
    assert len(shown[0]) < LIMITS.output_bytes + 1000 and "more characters" in shown[0]
    assert shown[1] == ""
    assert outcomes(report)["snapshot"] == "passed"
    assert len(report.notebook) < len(released()) + LIMITS.output_bytes + 10_000
    assert any("was interrupted after 1 s" in note for note in report.notes)
    assert "sandbox/shell.py" not in report.notebook


def test_files_have_a_limit(grader):
    cells = [
        attempt(f"with open('{folder}/large', 'wb') as file:\n    file.write(bytes(2**22))") for folder in ("/tmp", "~")
    ]
    shown, _ = run(grader, cells[0], cells[1].replace("~", "/dev/shm"))
    assert shown == ["OSError\n", "OSError\n"]


def test_nothing_outlives_its_submission(grader):
    seconds = f"98765.{os.getpid()}"
    started = f"import subprocess\nsubprocess.Popen(['setsid', 'sleep', '{seconds}'], start_new_session=True).pid > 0"
    shown, report = run(grader, started)
    assert shown == ["True"]
    assert outcomes(report)["snapshot"] == "passed"
    _await(lambda: not _running(seconds))


def test_a_cell_that_cannot_be_interrupted_is_killed(grader):
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    pass"
    with impatient(grader):
        _, report = run(grader, stubborn)
    assert outcomes(report)["snapshot"] == "passed"
    assert any("was left out: it ran for more than 1 s" in note for note in report.notes)


def test_nothing_is_left_for_the_next_submission(grader):
    leave = """
import builtins, os, sys, torch
left = []
for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "/run", "/var", "/home", "/"):
    try:
        open(os.path.join(folder, "left"), "w").write("answer")
        left.append(folder)
    except OSError:
        pass
builtins.left = torch.left = "answer"
os.environ["LEFT"] = "answer"
print(left)
"""
    look = """
import builtins, os, torch
places = [f"/{name}" for name in os.listdir("/") if name not in ("proc", "sys", "usr", "work", "root", "opt")]
files = [os.path.join(root, name) for place in places for root, _, names in os.walk(place) for name in names]
print([path for path in files if path.endswith("/left")])
print(hasattr(builtins, "left"), hasattr(torch, "left"), "LEFT" in os.environ, os.listdir("/tmp"))
"""
    before, _ = run(grader, look)
    shown, _ = run(grader, leave)
    assert shown == ["['/tmp', '/dev/shm', '/home/student']\n"]
    shown, _ = run(grader, look)
    assert shown[0].startswith("[]\nFalse False False [")
    assert shown == before  # /tmp shows the way to packages that lie below it, and nothing else


@pytest.mark.nightly
def test_ending_the_grader_ends_everything(tmp_path):
    code = """
import sys, time
from course_utils.classroom.judging.grader import Grader
from tests.classroom.handed_in import Notebook, released
with Grader() as grader:
    print(grader._python._process.pid, flush=True)
    slow = Notebook().solve("snapshot").add("import time\\ntime.sleep(600)", after="setup")
    grader.grade(released(), slow.bytes(), student="eve", assignment="03_detach")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    with process:
        sandbox_process = int(process.stdout.readline())
        assert Path(f"/proc/{sandbox_process}").exists()
        process.send_signal(signal.SIGKILL)
    _await(lambda: not Path(f"/proc/{sandbox_process}").exists())


def test_a_missing_bubblewrap_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    with pytest.raises(SandboxMissing) as caught, Grader():
        pass
    assert "apt install bubblewrap" in str(caught.value) and "dnf install bubblewrap" in str(caught.value)


def test_a_refused_namespace_is_said_with_what_to_allow(monkeypatch):
    monkeypatch.setattr(sandbox, "_command", lambda folders: ["sh", "-c", "echo setting up uid map >&2; exit 1", "--"])
    assert "apparmor_restrict_unprivileged_userns" in sandbox.missing()


ORDINARY = """
import os
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.judging.grader import Grader
from tests.classroom.handed_in import Notebook, outcomes, released

assert os.geteuid() != 0
with Grader(Limits(check_seconds=30.0)) as grader:
    assert not grader.remarks
    content = Notebook().solve("snapshot").bytes()
    for _ in range(2):
        report = grader.grade(released(), content, student="ada", assignment="03_detach")
        print(outcomes(report)["snapshot"])
"""


def as_ordinary_user():
    """What makes a command of root's one of nobody's, who may read the interpreter, its packages and this checkout."""
    if os.geteuid() != 0:
        return []
    needed = [path for path in (*sandbox._python_folders(), str(ROOT)) if not path.startswith("/usr/")]
    covered = sorted({f"/{Path(path).parts[1]}" for path in needed} | {"/tmp"})
    between = [str(folder) for path in needed for folder in list(Path(path).parents)[-3::-1]]
    world = [part for path in covered for part in ("--perms", "1777", "--tmpfs", path)]
    world += [part for path in between for part in ("--perms", "0755", "--dir", path)]
    world += [part for path in needed for part in ("--ro-bind", path, path)]
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    return ["bwrap", "--dev-bind", "/", "/", *world, "--cap-add", "ALL", "--chdir", str(ROOT), "--", *become, "--"]


READS_ITSELF = """
import os, sys
from course_utils.classroom.sandbox import jail

if not jail.can_nest():
    jail.lead()
if jail.fork_numbered() == 0:
    jail.enter(2**20)
    jail.restrict(jail.Bounds(cpu_seconds=10, memory_bytes=2**30, processes=16, file_bytes=2**20))
    try:
        os.open("/proc/self/mem", os.O_RDONLY)
        print("opened")
    except OSError as error:
        print(type(error).__name__)
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


@pytest.mark.nightly
def test_packages_below_a_folder_that_is_emptied_stay_in_sight(monkeypatch):
    # A virtual environment in /tmp, as CI makes one.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "packages").mkdir()
        (Path(folder) / "packages" / "lately.py").write_text("value = 7")
        (Path(folder) / "secret").write_text("no")
        folders = (*sandbox._python_folders(), f"{folder}/packages")
        monkeypatch.setattr(sandbox, "_python_folders", lambda: folders)
        with Grader(LIMITS) as grader:
            cells = [f"import sys\nsys.path.append('{folder}/packages')\nimport lately\nprint(lately.value)"]
            cells += [attempt(f"open('{folder}/secret')"), attempt(f"open('{folder}/packages/x', 'w')")]
            shown, _ = run(grader, *cells, "import os\nprint(os.listdir('/tmp'), open('/tmp/x', 'w').close())")
    assert shown[:3] == ["7\n", "FileNotFoundError\n", "OSError\n"]
    seen = {Path(path).parts[2] for path in (*folders, sandbox.PACKAGE) if Path(path).parts[1] == "tmp"}
    listed, nothing = shown[3].rsplit(maxsplit=1)
    assert set(ast.literal_eval(listed)) == seen and nothing == "None"


def _running(word):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append(word.encode() in (entry / "cmdline").read_bytes())
            except OSError:  # it has just ended
                continue
    return any(found)


def _await(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)
