"""Makes the course's virtual environment, and installs into it what pyproject.toml and constraints.txt say.

    python tools/bootstrap.py [--extra dev] [--venv .venv] [--torch 2.15.0]

Does nothing, in a fraction of a second, where nothing changed. Any Python can start this file, old ones too: it has to
run before it can say that a Python is too old. Hence no f-strings, no annotations, no stars in lists.
"""
# ruff: noqa: RUF005, UP020, UP031  an old Python could not read the newer syntax that these ask for

import argparse
import hashlib
import io
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
64-bit Python 3.11 to 3.13 on Linux, Windows and Macs with Apple silicon."""


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
    candidates = [here] * ("python%d.%d" % version in TESTED) + TESTED + [here] * (version >= (3, 11))
    return next((name for name in candidates if output_of(name, "-c", "import ensurepip, venv") is not None), None)


def read(*path):
    """A file of the project, or one that was written here; "" where there is none."""
    path = os.path.join(ROOT, *path)
    if not os.path.exists(path):
        return ""
    with io.open(path, encoding="utf-8") as file:
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
    if torch and "torch==" + torch not in " ".join(lines):
        # Another release than the pinned one may want an older setuptools.
        lines = [line for line in lines if not line.startswith(("torch==", "setuptools=="))]
        lines.append("torch==" + torch + ".*" * (torch.count(".") < 2))
    return "\n".join(lines + [""])


def prepare(venv, extra, torch):
    """Makes the environment, or brings it up to date; returns an exit status."""
    python = os.path.join(venv, "Scripts" if os.name == "nt" else "bin", "python")
    stamp, pins = os.path.join(venv, "course-installed.txt"), os.path.join(venv, "course-constraints.txt")
    asked = venv + read("pyproject.toml").partition("\n[tool.")[0] + read("constraints.txt")
    asked = hashlib.sha256(asked.encode("utf-8")).hexdigest()
    # What was installed for the same files, a line for each extra: `make lab` after `make test` takes nothing out.
    done = [line for line in read(stamp).splitlines() if line.startswith(asked)]
    wanted = " ".join([asked, "extra:" + extra, "torch:" + torch])
    if wanted in done and os.path.exists(python):
        return 0
    if output_of(python, "-m", "pip", "--version") is None:
        print("Making a virtual environment in %s ..." % venv)
        if subprocess.call([sys.executable, "-m", "venv", "--clear", venv]):
            return 1
    print("Installing PyTorch, JupyterLab and what the course needs: a few minutes the first time ...")
    sys.stdout.flush()
    for path, text in ((stamp, ""), (pins, constraints(torch or torch_to_install(python)))):
        with io.open(path, "w", encoding="utf-8") as file:
            file.write(text)
    # Of 14,000 modules a tenth is ever imported. Compiled then, and not by pip, they take a minute less.
    command = [python, "-m", "pip", "install", "--no-compile", "--no-input", "--disable-pip-version-check", "-c", pins]
    if subprocess.call(command + ["--editable", ".[%s]" % extra if extra else "."], cwd=ROOT):
        print(NOT_INSTALLED)
        return 1
    with io.open(stamp, "w", encoding="utf-8") as file:
        file.write("\n".join([wanted] + done * (not torch)))
    return 0


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
