"""Makes the course's virtual environment and keeps it in step with the requirements (``main``).

    python tools/bootstrap.py [--extra dev] [--venv .venv] [--torch 2.15.0]

Does nothing, in a fraction of a second, when nothing changed. Run it through bootstrap.py, which finds a Python for it.
Which PyTorch is installed, ``torch_wanted`` says.
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there, two installations at the same time are not kept apart
    fcntl = None  # type: ignore[assignment]  # the module is tested for None before use

ROOT = Path(__file__).resolve().parents[1]
STAMP = "course-environment.json"
# Of the hundreds of lines that pip prints, those that say what a reader waits for: downloads of 10 MB and more.
LARGE = re.compile(r"Downloading (?:\S*/)?(\w+)-\S* \((\d{2,}(?:\.\d+)? MB|\S+ GB)\)")

FULL_DISK = """\
The disk is full. {space}
An installation takes about 2 GB, and on Linux about 8 GB with the GPU libraries that PyTorch brings by default.
Try: free some space, or take PyTorch's CPU build (docs/setup.md, "Which PyTorch"), then run the same command
again. Where the temporary folder is on a small disk, set TMPDIR to a folder on a larger one."""

OFFLINE = """\
The packages could not be fetched: this machine does not reach the package index.
Try: connect to the network, or set pip's proxy and index (HTTPS_PROXY, PIP_INDEX_URL), then run the same command
again. What was fetched already is not fetched twice."""

NO_WHEEL = """\
PyTorch{torch} has no package for this Python and machine: Python {version}, {machine}.
Expected: a 64-bit Python 3.11 to 3.13 on Linux, Windows or a Mac with Apple silicon.
Try: make lab PYTHON=python3.12, or any other Python among these."""

UNKNOWN = """\
pip stopped before everything was installed; its own words are above.
Try: what pip advises there, then run the same command again."""

# What pip's log says in each case; the first that is found is the one to tell, so a full disk outranks what follows it.
SIGNS = (
    (FULL_DISK, ("No space left on device", "[Errno 28]", "Disk quota exceeded", "[WinError 112]")),
    (OFFLINE, ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ProxyError", "getaddrinfo failed")),
    (OFFLINE, ("Failed to establish a new connection", "Connection refused", "Network is unreachable")),
    (NO_WHEEL, ("No matching distribution found for torch", "The user requested (constraint) torch==")),
)


TOO_OLD = "The course needs PyTorch {oldest} or newer, and TORCH={asked} is older."
NOT_A_RELEASE = "TORCH={asked} is no release of PyTorch. Try: make lab TORCH={newest}"
NOT_TRIED = "The course was tried on PyTorch {oldest} to {newest}, and not yet on {asked}."


def numbers(version: str) -> tuple[int, ...]:
    """ "2.15.0+cpu" as (2, 15)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:2])


def tried(root: Path) -> list[str]:
    """The releases of PyTorch that the course was tried on, the oldest first."""
    text = (root / "course_utils" / "base" / "versions.py").read_text(encoding="utf-8")
    (line,) = re.findall(r"^RELEASES = \((.*)\)", text, re.MULTILINE)
    return re.findall(r'"([\d.]+)"', line)


def refused(asked: str, releases: list[str]) -> str:
    """Why that PyTorch is not installed, in one line; empty where it is."""
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", asked):
        return NOT_A_RELEASE.format(asked=asked, newest=releases[-1])
    oldest = ".".join(map(str, numbers(releases[0])))
    return TOO_OLD.format(asked=asked, oldest=oldest) if numbers(asked) < numbers(releases[0]) else ""


def torch_wanted(venv: Path, asked: str, releases: list[str]) -> str:
    """Which PyTorch is installed: the one asked for; or else the one that is there, if the course runs on it; or else,
    on Linux, the newest that pip finds a CPU build of, since the others bring gigabytes of GPU libraries.

    Returns:
        Its version, of which one may be in constraints.txt; empty for the one that is.
    """
    if asked:
        return asked
    probe = "from importlib import metadata; print(metadata.version('torch'))"
    there = output_of(python_of(venv), "-c", probe).strip().partition("+")[0]
    if there and numbers(there) >= numbers(releases[0]):
        return there
    if platform.system() != "Linux":
        return ""
    found = output_of(python_of(venv), "-m", "pip", "index", "versions", "torch", "--retries", "0")
    small = [version for version in re.findall(r"\b(\d+\.\d+\.\d+)\+cpu\b", found) if version in releases]
    return max(small, key=numbers, default="")


def output_of(*command: Path | str) -> str:
    """What a command prints; empty where it fails."""
    ran = subprocess.run(command, capture_output=True, text=True)
    return ran.stdout if ran.returncode == 0 else ""


def constraints_for(torch: str, pinned: str) -> str:
    """The exact versions to install, with that PyTorch among them; as they are pinned where it is empty."""
    if not torch:
        return pinned
    # Some releases want an older setuptools than the pinned ones.
    replaced = ("torch==",) if f"torch=={torch}" in pinned else ("torch==", "setuptools==")
    kept = [line for line in pinned.splitlines() if not line.startswith(replaced)]
    exact = torch if torch.count(".") == 2 else f"{torch}.*"
    return "\n".join([*kept, f"torch=={exact}", ""])


def requirements_digest(root: Path) -> str:
    """A hash of everything that says what to install: the versions, and pyproject.toml down to its first tool table."""
    asked_for = (root / "pyproject.toml").read_text(encoding="utf-8").partition("\n[tool.")[0]
    pinned = (root / "constraints.txt").read_text(encoding="utf-8")
    return hashlib.sha256(f"{asked_for}\0{pinned}".encode()).hexdigest()


def python_of(venv: Path) -> Path:
    """The interpreter inside a virtual environment."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def read_stamp(venv: Path) -> dict:
    """What the last run left written in the environment; empty where nothing readable is there."""
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: Path, stamp: dict) -> None:
    """Replaces the stamp in one step, so that a kill leaves the old one or the new one."""
    unfinished = venv / f"{STAMP}.{os.getpid()}"
    unfinished.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    os.replace(unfinished, venv / STAMP)


def version_of(venv: Path) -> str:
    """The environment's Python as "3.11"; empty where its Python or its pip does not start."""
    probe = (
        "import sys, importlib.util as u; print('%d.%d' % sys.version_info[:2]) if u.find_spec('pip') else sys.exit(1)"
    )
    try:
        process = subprocess.run([python_of(venv), "-c", probe], capture_output=True, text=True)
    except OSError:  # a link to a Python that is gone
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""


def reason_to_start_over(venv: Path, stamp: dict) -> str:
    """Why an existing environment can neither be used nor mended; empty where it can."""
    version = version_of(venv)
    if not version:
        return "its Python or its pip does not start"
    if stamp.get("installing"):
        return "the last installation did not finish"
    if stamp.get("folder", str(venv)) != str(venv):
        return "the folder was moved"
    if stamp.get("python", version) != version:
        return "its Python has another version now"
    return ""


@contextlib.contextmanager
def only_one(root: Path) -> Iterator[None]:
    """Waits while another run installs: two at the same time would spoil each other's work."""
    with open(root / "constraints.txt", "rb") as locked:
        if fcntl:
            try:
                fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("Another run is installing into the environment; waiting for it ...")
                fcntl.flock(locked, fcntl.LOCK_EX)
            except OSError:
                pass  # a file system without locks, as some network folders are: go on without
        yield


def say(line: str) -> None:
    """One line for the reader, at once, also where the output is a file."""
    print(line, flush=True)


def free_space() -> str:
    """How much room there is for the environment."""
    return f"{shutil.disk_usage(ROOT).free / 1e9:.1f} GB are free in {ROOT}."


def failure(log: Path) -> str:
    """The message that fits what pip's log says."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return next((message for message, signs in SIGNS if any(sign in text for sign in signs)), UNKNOWN)


def install(venv: Path, extras: list[str], log: Path, constraints: Path) -> bool:
    """Runs pip in the environment, shows its errors and its large downloads, and says whether it finished."""
    target = f".[{','.join(extras)}]" if extras else "."
    # Of 14,000 modules a tenth is ever imported. Compiled then, and not by pip, they take a minute less.
    compiling = [] if sys.dont_write_bytecode else ["--no-compile"]
    command = [python_of(venv), "-m", "pip", "install", *compiling, "--log", log, "--constraint", constraints]
    # A user's pip settings are honoured, but for those that ask questions or cannot work in a virtual environment.
    environment = os.environ | {"PIP_NO_INPUT": "1", "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with subprocess.Popen(
        [*command, "--editable", target], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as pip:
        for line in pip.stdout or ():
            if large := LARGE.search(line):
                say(f"  fetching {large[1]}, {large[2]}")
    return pip.returncode == 0


def prepare(venv: Path, extras: list[str], asked: str = "") -> int:
    """Makes or updates the environment, with the PyTorch that was asked for; returns an exit status."""
    stamp, digest, releases = read_stamp(venv), requirements_digest(ROOT), tried(ROOT)
    if asked and (message := refused(asked, releases)):
        say(message)
        return 1
    start_over = reason_to_start_over(venv, stamp) if venv.exists() else "it does not exist yet"
    there = asked in ("", stamp.get("torch")) and set(extras) <= set(stamp.get("extras", []))
    if not start_over and stamp.get("requirements") == digest and there:
        return 0
    started = time.monotonic()
    if start_over:
        if venv.exists():
            say(f"The environment in {venv.name} is made anew: {start_over}.")
        say(f"Making a virtual environment in {venv.name} with Python {sys.version.split()[0]} ...")
        if subprocess.run([sys.executable, "-m", "venv", "--clear", venv]).returncode != 0:
            say(f"No environment could be made in {venv}; Python's own words are above. {free_space()}")
            return 1
        stamp = {}
    # What is there stays: `make lab` after `make test` keeps the tools that the tests need.
    extras = sorted(set(extras) | set(stamp.get("extras", [])))
    say("Installing PyTorch, JupyterLab and what the course needs: a few minutes the first time ...")
    torch = torch_wanted(venv, asked, releases)
    if torch and numbers(torch) > numbers(releases[-1]):
        oldest, newest = (".".join(map(str, numbers(release))) for release in (releases[0], releases[-1]))
        say(NOT_TRIED.format(oldest=oldest, newest=newest, asked=torch))
    note = {"folder": str(venv), "python": version_of(venv), "extras": extras}
    write_stamp(venv, {**note, "installing": True})
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        constraints = Path(folder) / "constraints.txt"
        pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        constraints.write_text(constraints_for(torch, pinned), encoding="utf-8")
        if not install(venv, extras, Path(folder) / "pip.log", constraints):
            message = failure(Path(folder) / "pip.log")
            python, machine = platform.python_version(), f"{platform.system()} {platform.machine()}"
            named = f" {asked}" if asked else ""
            say("\n" + message.format(space=free_space(), version=python, machine=machine, torch=named))
            # These two stop pip before it installs anything; after any other, half a package may lie there. A new
            # environment whose Python will not do starts over too, with the Python that is named next time.
            if message == OFFLINE or (message == NO_WHEEL and "requirements" in stamp):
                write_stamp(venv, note)
                if "requirements" in stamp:
                    say(f"What was installed before still starts: {python_of(venv)} -m course_utils.workspace lab")
            return 1
    write_stamp(venv, {**note, "requirements": digest, "torch": torch})
    say(f"The environment is ready ({time.monotonic() - started:.0f} s).")
    return 0


def main(arguments: list[str]) -> int:
    """Brings the environment up to date and says what it does; returns an exit status."""
    parser = argparse.ArgumentParser(description="Make or update the course's virtual environment.")
    parser.add_argument("--extra", action="append", default=[], help="an extra of pyproject.toml to install: dev")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="its folder; .venv by default")
    parser.add_argument("--torch", default="", help="a release of PyTorch: 2.15.0, or 2.15 for the last of these")
    options = parser.parse_args(arguments)
    try:
        with only_one(ROOT):
            return prepare(options.venv.absolute(), options.extra, options.torch)
    except KeyboardInterrupt:
        say("\nInterrupted. Run the same command again: it starts over from what was fetched.")
        return 130
    except OSError as error:
        say(f"The environment could not be written: {error}.")
        say(f"{free_space()} Is the folder writable?")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
