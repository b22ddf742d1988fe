"""Makes the course's virtual environment, and installs into it what pyproject.toml and constraints.txt say.

Does nothing, in a fraction of a second, where nothing changed. Any Python can start this file, old ones too: it has to
run before it can say that a Python is too old. Hence no f-strings, no annotations, no stars in lists.
"""
# ruff: noqa: RUF005, UP031  an old Python could not read the newer syntax that these ask for

import argparse
import os
import platform
import re
import subprocess
import sys

TESTED = ["python3.12", "python3.11", "python3.13"]  # what constraints.txt was made for, best first
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_PYTHON = """This course needs Python 3.11 or newer that can make virtual environments, and found Python %s alone.
Try: install Python 3.12 (https://www.python.org/downloads/; on Debian and Ubuntu: sudo apt install python3-venv) and
run the command again. To name a Python that is not on the PATH: make lab PYTHON=/path/to/python3.12"""


def output_of(*command):
    """What a command prints; None where it fails, or where there is no such command."""
    try:
        return subprocess.check_output(command, stderr=subprocess.PIPE).decode("utf-8", "replace")
    except (OSError, subprocess.CalledProcessError):
        return None


def python_to_use(here, version):
    """This Python if the course was tried on it, else one on the PATH that it was tried on, else this newer one."""
    candidates = [here] * ("python%d.%d" % version in TESTED) + TESTED + [here] * (version >= (3, 11))
    return next((name for name in candidates if output_of(name, "-c", "import ensurepip, venv") is not None), None)


def read(path):
    """A file of the project, or the one at this path."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def constraints(python, torch):
    """The exact versions to install: of PyTorch the one asked for, else the one that is there, else, on Linux, the
    newest that pip finds a CPU build of, since the others bring gigabytes of GPU libraries, else the pinned one."""
    there = output_of(python, "-c", "from importlib import metadata; print(metadata.version('torch'))") or ""
    torch = torch or there.partition("+")[0].strip()
    if not torch and platform.system() == "Linux":
        found = re.split(r"[\s,]+", output_of(python, "-m", "pip", "index", "versions", "torch") or "")
        tried = re.findall(r"\d[\d.]+", re.search("RELEASES = (.*)", read("course_utils/base/versions.py")).group(1))
        torch = ([""] + [release for release in tried if release + "+cpu" in found])[-1]
    pins = read("constraints.txt")
    if torch:  # a release that is pinned for no system may want an older setuptools
        others = "torch" if "torch==" + torch in pins else "torch|setuptools"
        pins = re.sub("(?m)^(%s)==.*\n" % others, "", pins) + "torch==" + torch + ".*" * (torch.count(".") < 2) + "\n"
    return pins


def prepare(venv, extra, torch):
    """Makes the environment, or brings it up to date; returns an exit status."""
    python = os.path.join(venv, "Scripts" if os.name == "nt" else "bin", "python")
    pins = os.path.join(venv, "course-constraints.txt")  # and below them, as comments, each extra installed by them
    asked = "# installed: %r" % [venv, read("pyproject.toml").partition("\n[tool.")[0], read("constraints.txt")]
    wanted = "%s extra:%s torch:%s\n" % (asked, extra, torch)
    done = [line for line in read(pins).splitlines(True) if line.startswith(asked)] if os.path.exists(pins) else []
    if wanted in done and os.path.exists(python):
        return 0
    sys.stderr.write("Installing what the course needs in %s: 2 GB of disk, a few minutes the first time ...\n" % venv)
    works = output_of(python, "-m", "pip", "--version") is not None
    if not works and subprocess.call([sys.executable, "-m", "venv", "--clear", venv]):
        return 1
    with open(pins, "w", encoding="utf-8") as file:
        file.write(constraints(python, torch))
    # Of 14,000 modules a tenth is ever imported. Compiled then, and not by pip, they take a minute less.
    command = [python, "-m", "pip", "install", "--no-compile", "--no-input", "--disable-pip-version-check", "-c", pins]
    status = subprocess.call(command + ["--editable", ".[%s]" % extra if extra else "."], cwd=ROOT)
    with open(pins, "a", encoding="utf-8") as file:
        file.write("" if status else wanted + "".join(done * (not torch)))
    return status


def main():
    """Brings the environment up to date, in a Python that can."""
    python = python_to_use(sys.executable, sys.version_info[:2])
    if python is None:
        sys.exit(NO_PYTHON % platform.python_version())
    if python != sys.executable:
        return subprocess.call([python, os.path.abspath(__file__)] + sys.argv[1:])
    parser = argparse.ArgumentParser(description="Make or update the course's virtual environment.")
    parser.add_argument("--extra", default="", help="an extra of pyproject.toml to install: dev")
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"), help="its folder; .venv by default")
    parser.add_argument("--torch", default="", help="a release of PyTorch: 2.15.0, or 2.15 for the last of these")
    options = parser.parse_args()
    return prepare(os.path.abspath(options.venv), options.extra, options.torch)


if __name__ == "__main__":
    sys.exit(main())
