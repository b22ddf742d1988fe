"""Makes the course's virtual environment, and installs into it what pyproject.toml and constraints.txt say.

Does nothing, in a fraction of a second, where nothing changed. Any Python can start this file, old ones too: it has to
run before it can say that a Python is too old. Hence no f-strings, no annotations, no stars in lists.
"""
# ruff: noqa: RUF005, UP031  an old Python could not read the newer syntax that these ask for

import argparse
import os
import re
import subprocess
import sys

TESTED = ["python3.12", "python3.11", "python3.13"]  # what constraints.txt was made for, best first
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_PYTHON = """This course needs Python 3.11 or newer that can make virtual environments, and found Python %s alone.
Try: install Python 3.12 (https://www.python.org/downloads/; on Debian and Ubuntu: sudo apt install python3-venv) and
run the command again. To name a Python that is not on the PATH: make lab PYTHON=/path/to/python3.12"""


def output_of(*command):
    """What a command prints; nothing where it fails, or where there is no such command."""
    try:
        return subprocess.check_output(command, stderr=subprocess.PIPE).decode("utf-8", "replace")
    except (OSError, subprocess.CalledProcessError):
        return ""


def python_to_use(here, version):
    """This Python if the course was tried on it, else one on the PATH that it was tried on, else this newer one."""
    candidates = [here] * ("python%d.%d" % version in TESTED) + TESTED + [here] * (version >= (3, 11))
    return next((name for name in candidates if output_of(name, "-c", "import ensurepip, venv; print(1)")), None)


def constraints(python, torch, pins, tried):
    """The exact versions to install: of PyTorch the one asked for, else the one that is there, else, on Linux, the
    newest that pip finds a CPU build of, since the others bring gigabytes of GPU libraries, else the pinned one."""
    there = output_of(python, "-c", "from importlib import metadata; print(metadata.version('torch'))")
    torch = torch or there.partition("+")[0].strip()
    if not torch and sys.platform == "linux":
        built = re.findall(r"([\d.]+)\+cpu", output_of(python, "-m", "pip", "index", "versions", "torch"))
        torch = next((release for release in built if '"%s"' % release in tried), "")  # pip names the newest first
    if torch:  # a release that is pinned for no system may want an older setuptools
        others = "torch" if "torch==" + torch in pins else "torch|setuptools"
        pins = re.sub("(?m)^(%s)==.*\n" % others, "", pins) + "torch==" + torch + ".*" * (torch.count(".") < 2) + "\n"
    return pins


def prepare(venv, extra, torch):
    """Makes the environment, or brings it up to date; returns an exit status."""
    from pathlib import Path  # an old Python has none

    names = "pyproject.toml", "constraints.txt", "course_utils/base/versions.py"
    project, pins, tried = (Path(ROOT, name).read_text("utf-8") for name in names)
    python = os.path.join(venv, "Scripts" if os.name == "nt" else "bin", "python")
    kept = Path(venv, "course-constraints.txt")  # and below them, as comments, each extra installed by them
    asked = "# installed: %r\n" % [venv, project.partition("\n[tool.")[0], pins]
    wanted = "# extra:%s torch:%s\n" % (extra, torch)
    done = kept.read_text("utf-8").partition(asked)[2] if kept.exists() else ""
    if wanted in done and os.path.exists(python):
        return 0
    sys.stderr.write("Installing what the course needs in %s: 2 GB of disk, a few minutes the first time ...\n" % venv)
    works = output_of(python, "-m", "pip", "--version")
    # Over 180 packages the pip that Python 3.11 brings takes 18 s longer than one of today.
    if not works and subprocess.call([sys.executable, "-m", "venv", "--upgrade-deps", "--clear", venv]):
        return 1
    pins = constraints(python, torch, pins, tried)
    kept.write_text(pins, "utf-8")
    # Of 14,000 modules a tenth is ever imported. Compiled then, and not by pip, they take a minute less.
    command = [python, "-m", "pip", "install", "--no-compile", "--no-input", "--disable-pip-version-check", "-c"]
    status = subprocess.call(command + [str(kept), "--editable", ".[%s]" % extra if extra else "."], cwd=ROOT)
    kept.write_text(pins + ("" if status else asked + wanted + done * (not torch)), "utf-8")
    return status


def main():
    """Brings the environment up to date, in a Python that can."""
    python = python_to_use(sys.executable, sys.version_info[:2])
    if python is None:
        sys.exit(NO_PYTHON % sys.version.split()[0])
    if python != sys.executable:
        return subprocess.call([python, os.path.abspath(__file__)] + sys.argv[1:])
    parser = argparse.ArgumentParser(description="Make or update the course's virtual environment.")
    parser.add_argument("--extra", default="", help="an extra of pyproject.toml to install: dev")
    parser.add_argument("--venv", type=os.path.abspath, default=os.path.join(ROOT, ".venv"), help="its folder")
    parser.add_argument("--torch", default="", help="a release of PyTorch: 2.15.0, or 2.15 for the last of these")
    return prepare(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
