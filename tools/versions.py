"""Runs the course on every PyTorch that it supports, one line each at the end: ``python -m tools.versions``.

For each release, all solution notebooks through nbval, the proofs of the exercises, and the tests of the instruments:
of this folder, on this Python; then the newest release with every other Python that is found of those that the course
was tried on. Words that it does not know go to pytest: ``make versions ARGS="--releases 2.11.0 -n 2 -k detach"``.

An environment holds one PyTorch and shares everything else with the environment that this runs in (for another Python:
with one made once). It stands in a folder of its own below build/versions/, is taken up again by the next run where one
was stopped, and is deleted when its release is through, unless ``--keep`` is given.

On Linux, the wheel on the package index asks for gigabytes of GPU libraries that no CPU needs, and ``import torch``
refuses to start without some of them: the loader wants every library that a part of PyTorch names, though nothing in
it is called. So the wheel is installed without what it asks for (the pure packages among it are shared, as above), and
the loader's own error says which library is missing. Its package is fetched at the version that the wheel asks for,
and that one file taken out of it, into torch/lib, where PyTorch looks for libraries of its own. That is 1.6 GB for
2.15.0 and 2.7 GB for 2.10.0, and nothing where pip finds a CPU build (docs/setup.md, "Which PyTorch").
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from packaging.requirements import Requirement

from course_utils.base.versions import RELEASES
from tools import bootstrap
from tools.environment import python_of

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "versions"
# What is run, by the words of a line at the end; a pattern that finds nothing may be a test file that was renamed.
GROUPS = {
    "notebook cells": ("notebooks/solutions", "notebooks/further"),
    "proofs": ("tests/lessons",),
    "instrument tests": (
        *("tests/test_memory*.py", "tests/test_graph*.py", "tests/test_steps.py"),
        *("tests/leaks", "tests/why", "tests/test_torch_private.py"),
    ),
}
MISSING = re.compile(r"(lib[\w.+-]+?)\.so[.\d]*(?=:| not found)|(lib\w+)\.so\.\*\[0-9\]")


@dataclass
class Ran:
    """What pytest said of one release: by group, how often each outcome, and the reasons of what was skipped."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    @property
    def green(self) -> bool:
        """Whether each group ran, and nothing in it failed."""
        return not self.failed and all(self.counts.get(name, Counter())["passed"] for name in GROUPS)

    def line(self) -> str:
        """Each group in a few words, and why anything was skipped."""
        if not self.counts:
            return f"not run: {' '.join(self.failed)}"
        parts = []
        for name in GROUPS:
            counts = self.counts.get(name, Counter())
            others = "".join(f", {counts[word]} {word}" for word in ("failed", "skipped") if counts[word])
            parts.append(f"{name} {counts['passed']} passed{others}" if counts else f"{name} not run")
        reasons = "; ".join(f"{reason} ({count})" for reason, count in self.reasons.items())
        return "; ".join(parts) + (f". Skipped: {reasons}" if reasons else "")


def main(arguments: list[str]) -> int:
    """Runs the command; returns 0 where everything passed on each release."""
    parser = argparse.ArgumentParser(prog="python -m tools.versions", description=__doc__.partition("\n")[0])
    parser.add_argument("--releases", nargs="+", default=RELEASES, metavar="X.Y.Z", help="all that are supported")
    parser.add_argument("--pythons", nargs="+", metavar="PYTHON", help="this one; for the newest release, all found")
    parser.add_argument("--keep", action="store_true", help="keep the environments for the next run")
    options, others = parser.parse_known_args(arguments)
    lines, green = [], True
    for release, python in pairs(options.releases, options.pythons):
        name = f"PyTorch {release} on Python {version_of(python)}"
        print(f"== {name}", flush=True)
        venv = environment(release, python)
        ran = run(python_of(venv), others)
        print(*ran.failed, sep="\n", flush=True)
        lines.append(f"{name}: {ran.line()}")
        print(lines[-1], flush=True)
        green = green and ran.green
        if not options.keep:
            shutil.rmtree(venv)
    if not options.keep:
        shutil.rmtree(FOLDER, ignore_errors=True)
    print(*lines, sep="\n")
    return 0 if green else 1


def pairs(releases: list[str], pythons: list[str] | None) -> list[tuple[str, str]]:
    """Which release is run on which Python, this one first."""
    found = [found for python in pythons or () if (found := bootstrap.probe(python))]
    if pythons:
        return [(release, path) for _, _, path in found for release in releases]
    probed = filter(None, (bootstrap.probe(f"python{bootstrap.dotted(version)}") for version in bootstrap.TESTED))
    others = [path for version, able, path in probed if able and version != sys.version_info[:2]]
    newest = [(release, path) for release in releases if release == RELEASES[-1] for path in others]
    return [(release, sys.executable) for release in releases] + newest


def version_of(python: str) -> str:
    """A Python as "3.11"."""
    return bootstrap.dotted(bootstrap.probe(python)[0])


def run(python: Path, others: list[str]) -> Ran:
    """Runs the three groups in one go."""
    program = "from course_utils.base import torch_private; print(*torch_private.gone(), sep='\\n', end='')"
    asked = subprocess.run([python, "-c", program], cwd=ROOT, capture_output=True, text=True)
    if asked.stdout or asked.returncode != 0:  # in one line what would otherwise be a failure in every file
        return Ran(failed=(asked.stdout or asked.stderr).strip().splitlines())
    paths = [str(path.relative_to(ROOT)) for patterns in GROUPS.values() for glob in patterns for path in find(glob)]
    with TemporaryDirectory(prefix="versions-") as folder:
        report = Path(folder) / "report.xml"
        # Only pytest's settings of its own are kept from this run's surroundings: the packages are the environment's.
        surroundings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        command = [str(python), "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, *others, *paths], cwd=ROOT, env=surroundings)
        return read(report) if report.exists() else Ran(failed=["pytest did not start; its own words are above."])


def find(pattern: str) -> list[Path]:
    """The files that a pattern of GROUPS means."""
    paths = sorted(ROOT.glob(pattern))
    if not paths:
        raise FileNotFoundError(f"There is no {pattern} any more. Mend GROUPS in tools/versions.py.")
    return paths


def read(report: Path) -> Ran:
    """Counts what pytest's report says."""
    ran = Ran()
    for case in ElementTree.parse(report).iter("testcase"):
        where = case.get("classname", "").replace("/", ".")
        group = "notebook cells" if ".ipynb" in where else "proofs" if "tests.lessons" in where else "instrument tests"
        kinds = {child.tag: child for child in case}
        outcome = "skipped" if "skipped" in kinds else "failed" if {"failure", "error"} & set(kinds) else "passed"
        ran.counts.setdefault(group, Counter())[outcome] += 1
        if outcome == "skipped":
            skipped = kinds["skipped"]
            whole_file = re.search(r"Skipped: (.+)['\"]\)", skipped.text or "")  # of which the message says nothing
            ran.reasons[whole_file[1] if whole_file else skipped.get("message", "no reason given")] += 1
        if outcome == "failed":
            ran.failed.append(f"FAILED {where} {case.get('name')}")
    return ran


def environment(release: str, python: str) -> Path:
    """An environment with that release, made or taken up again."""
    venv = FOLDER / f"torch-{release}-python-{version_of(python)}"
    if starts(venv, release) == "":
        return venv
    shared = sysconfig.get_path("purelib") if same(python) else packages_of(shared_environment(python))
    packages = packages_of(make(venv, python, "--without-pip"))
    # In a folder of its own: pip then neither counts nor touches the PyTorch that the shared environment may have.
    install_into(packages, python, f"torch=={release}")
    for triton in (requirement for requirement in asked_for(packages) if requirement.name == "triton"):
        # Nothing here calls it; without it a wheel for GPUs complains on stderr when FLOPs are to be counted.
        install_into(packages, python, f"triton{triton.specifier}")
    (packages / "shared.pth").write_text(f"{ROOT}\nimport site; site.addsitedir({str(shared)!r})\n", encoding="utf-8")
    while (said := starts(venv, release)) != "":
        missing = MISSING.search(said)
        if missing is None:
            raise RuntimeError(f"PyTorch {release} does not start in {venv}:\n{said}")
        take_library(missing[1] or missing[2], python_with_pip(python), packages)
    return venv


def install_into(packages: Path, python: str, requirement: str) -> None:
    """Installs one package without what it asks for."""
    pip(python_with_pip(python), "install", "--no-deps", "--no-compile", "--target", packages, requirement)


def starts(venv: Path, release: str) -> str:
    """What importing torch says in an environment; empty where it starts and is that release."""
    if not python_of(venv).exists():
        return "no environment"
    program = f"import torch, numpy; assert torch.__version__.partition('+')[0] == {release!r}, torch.__version__"
    tried = subprocess.run([python_of(venv), "-c", program], capture_output=True, text=True)
    return "" if tried.returncode == 0 else tried.stderr or "no reason given"


def take_library(name: str, python: Path, packages: Path) -> None:
    """Puts one library into torch/lib, out of the package that this PyTorch asks for."""
    wanted = package_with(name, packages)
    print(f"  {name}: from {wanted}", flush=True)
    found = False
    with TemporaryDirectory(prefix="versions-") as folder:
        # cuda-toolkit has no files of its own: its extras name the packages.
        pip(python, "download", *([] if "[" in wanted else ["--no-deps"]), "--dest", folder, wanted)
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.infolist():
                    if Path(member.filename).name.startswith(f"{name}.so"):
                        member.filename = Path(member.filename).name
                        archive.extract(member, packages / "torch" / "lib")
                        found = True
    if not found:
        raise RuntimeError(f"{wanted} has no {name}. Mend package_with in tools/versions.py.")


def package_with(library: str, packages: Path) -> str:
    """The requirement of the installed PyTorch that brings a library, as "nvidia-cudnn-cu13==9.26.0.51".

    A package, or an extra of the package cuda-toolkit, is named as the library begins: cublas has libcublasLt.so.
    """
    wanted: dict[str, str] = {}
    for requirement in asked_for(packages):
        plain = re.sub(r"^nvidia-(cuda-)?|-cu\d+$", "", requirement.name)
        for part in requirement.extras or {plain}:
            extra = f"[{part}]" if requirement.extras else ""
            wanted["cudart" if part == "runtime" else part] = f"{requirement.name}{extra}{requirement.specifier}"
    begins = [part for part in wanted if library.lower().removeprefix("lib").startswith(part)]
    if not begins:
        raise RuntimeError(f"PyTorch needs {library}, and asks for none of that name: {', '.join(sorted(wanted))}")
    return wanted[max(begins, key=len)]


def asked_for(packages: Path) -> list[Requirement]:
    """What the installed PyTorch asks for."""
    (metadata,) = packages.glob("torch-*.dist-info/METADATA")
    lines = HeaderParser().parsestr(metadata.read_text(encoding="utf-8")).get_all("Requires-Dist", [])
    return [Requirement(line) for line in lines]


def same(python: str) -> bool:
    """Whether a Python is the one that runs this."""
    return version_of(python) == version_of(sys.executable)


def shared_environment(python: str) -> Path:
    """Everything but PyTorch, for another Python than this; made once."""
    venv = FOLDER / f"shared-python-{version_of(python)}"
    if (venv / "finished").exists():
        return venv
    make(venv, python)
    pins = venv / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins.write_text("\n".join(line for line in lines if not line.startswith("torch==")), encoding="utf-8")
    pip(python_of(venv), "install", "--no-compile", "--constraint", pins, *everything_but_torch())
    (venv / "finished").touch()
    return venv


def everything_but_torch() -> list[str]:
    """What the course asks for, and what PyTorch does: its pure packages, the same for each release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    ours = [line for lines in lists for line in lines if Requirement(line).name not in ("torch", project["name"])]
    return [*ours, "filelock", "typing-extensions", "setuptools", "sympy", "networkx", "jinja2", "fsspec", "numpy"]


def make(venv: Path, python: str, *options: str) -> Path:
    """A new environment, in place of what may be there."""
    subprocess.run([python, "-m", "venv", "--clear", *options, venv], check=True)
    return venv


def packages_of(venv: Path) -> Path:
    """Where an environment keeps its packages."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python_of(venv), "-c", program], text=True).strip())


def python_with_pip(python: str) -> Path:
    """The Python whose pip installs for another."""
    return Path(sys.executable) if same(python) else python_of(shared_environment(python))


def pip(python: Path, *arguments: Path | str) -> None:
    """Runs pip, whose settings are the user's."""
    command: list[Path | str] = [python, "-m", "pip", arguments[0], "-qq", "--no-input", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments[1:]], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
