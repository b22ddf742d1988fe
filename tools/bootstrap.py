"""Makes the course's virtual environment, and installs into it what pyproject.toml and constraints.txt say.

    python tools/bootstrap.py [--extra dev] [--venv .venv] [--torch 2.15.0]

Does nothing, in a fraction of a second, where nothing changed. Any Python can start this file, old ones too: it has to
run before it can say that a Python is too old. Hence no f-strings, no annotations, no stars in lists.
"""
# ruff: noqa: RUF005, UP020, UP031  an old Python could not read the newer syntax that these ask for

import argparse
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys

TESTED = ["python3.12", "python3.11", "python3.13"]  # what constraints.txt was made for, best first
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_PYTHON = """\
This course needs Python 3.11 or newer that can make virtual environments, and found Python %s alone.
Try: install Python 3.12 (https://www.python.org/downloads/; on Debian and Ubuntu: sudo apt install python3-venv) and
run the command again. To name a Python that is not on the PATH: make lab PYTHON=/path/to/python3.12"""
NOT_INSTALLED = """\
Not everything was installed; pip's own words are above.
Try: what pip advises there, then the same command again: what was fetched is not fetched twice. It takes 2 GB of disk,
8 GB with PyTorch's GPU libraries, and a network or a package index of yours (PIP_INDEX_URL). PyTorch has packages for
64-bit Python 3.11 to 3.13 on Linux, Windows and Macs with Apple silicon; this is Python %s on %s."""


def output_of(*command):
    """What a command prints; None where it fails, or where there is no such command."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError:
        return None
    output = process.communicate()[0].decode("utf-8", "replace")
    return output if process.returncode == 0 else None


def python_to_use(here, version):
    """The Python that makes the environment: this one if the course was tried on it, else one on the PATH that it was
    tried on, else this one where it is newer; None where none will do."""
    is_tested = "python%d.%d" % version[:2] in TESTED
    candidates = [here] * is_tested + TESTED + [here] * (version >= (3, 11))
    return next((name for name in candidates if output_of(name, "-c", "import ensurepip, venv") is not None), None)


def read(*path):
    """A file of the project."""
    with io.open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def torch_to_install(python):
    """The release of PyTorch where none is asked for: the one that is there, or else, on Linux, the newest that pip
    finds a CPU build of, since the others bring gigabytes of GPU libraries; "" for the pinned one."""
    there = output_of(python, "-c", "from importlib import metadata; print(metadata.version('torch'))")
    if there or platform.system() != "Linux":
        return (there or "").partition("+")[0].strip()
    found = re.split(r"[\s,]+", output_of(python, "-m", "pip", "index", "versions", "torch") or "")
    tried = re.search("RELEASES = (.*)", read("course_utils", "base", "versions.py")).group(1)
    return ([""] + [release for release in re.findall(r"\d[\d.]+", tried) if release + "+cpu" in found])[-1]


def constraints(torch):
    """The exact versions to install, with that PyTorch in place of the pinned one."""
    lines = read("constraints.txt").splitlines()
    if torch:
        # A release that is not the pinned one may want an older setuptools.
        names = ("torch==",) if "torch==" + torch in " ".join(lines) else ("torch==", "setuptools==")
        exact = torch if torch.count(".") == 2 else torch + ".*"
        lines = [line for line in lines if not line.startswith(names)] + ["torch==" + exact]
    return "\n".join(lines + [""])


def write(path, text):
    """Writes a file of the environment."""
    with io.open(path, "w", encoding="utf-8") as file:
        file.write(text)


def prepare(venv, extras, torch):
    """Makes the environment, or brings it up to date; returns an exit status."""
    python = os.path.join(venv, "Scripts" if os.name == "nt" else "bin", "python")
    stamp, pins = os.path.join(venv, "course-environment.json"), os.path.join(venv, "course-constraints.txt")
    was = json.loads(read(stamp) or '{"unfinished": true}') if os.path.exists(stamp) else {}
    # What is there stays: `make lab` after `make test` keeps the tools that the tests need, and the PyTorch.
    asked = hashlib.sha256((read("pyproject.toml").partition("\n[tool.")[0] + read("constraints.txt")).encode("utf-8"))
    wanted = {"folder": venv, "extras": sorted(set(extras) | set(was.get("extras", []))), "asked": asked.hexdigest()}
    wanted["torch"] = torch or was.get("torch", "")
    starts = output_of(python, "-m", "pip", "--version") is not None if was != wanted else os.path.exists(python)
    if was == wanted and starts:
        return 0
    if not starts or was.get("folder", venv) != venv or "unfinished" in was:
        print("Making a virtual environment in %s ..." % venv)
        if subprocess.call([sys.executable, "-m", "venv", "--clear", venv]):
            return 1
    print("Installing PyTorch, JupyterLab and what the course needs: a few minutes the first time ...")
    sys.stdout.flush()
    wanted["torch"] = torch or torch_to_install(python)
    write(stamp, json.dumps(dict(wanted, unfinished=True)))
    write(pins, constraints(wanted["torch"]))
    target = ".[%s]" % ",".join(wanted["extras"]) if wanted["extras"] else "."
    # Of 14,000 modules a tenth is ever imported. Compiled then, and not by pip, they take a minute less.
    command = [python, "-m", "pip", "install", "--no-compile", "--no-input", "--disable-pip-version-check", "-c", pins]
    if subprocess.call(command + ["--editable", target], cwd=ROOT):
        print(NOT_INSTALLED % (platform.python_version(), platform.platform()))
        return 1
    write(stamp, json.dumps(wanted))
    return 0


def main():
    """Brings the environment up to date, in a Python that can."""
    python = python_to_use(sys.executable, sys.version_info[:2])
    if python is None:
        sys.exit(NO_PYTHON % platform.python_version())
    if python != sys.executable:
        return subprocess.call([python, os.path.abspath(__file__)] + sys.argv[1:])
    parser = argparse.ArgumentParser(description="Make or update the course's virtual environment.")
    parser.add_argument("--extra", action="append", default=[], help="an extra of pyproject.toml to install: dev")
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"), help="its folder; .venv by default")
    parser.add_argument("--torch", default="", help="a release of PyTorch: 2.15.0, or 2.15 for the last of these")
    options = parser.parse_args()
    return prepare(os.path.abspath(options.venv), options.extra, options.torch)


if __name__ == "__main__":
    sys.exit(main())
