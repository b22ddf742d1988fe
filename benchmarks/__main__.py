"""Every benchmark, one after the other, each in a process of its own, or some of them by name.

    python -m benchmarks                              all
    python -m benchmarks check_time import_time       these

A benchmark is a module of this folder with a ``main()`` that prints a table and returns 1 where a target was missed.
``memory_sweep`` is none: it counts bytes and takes minutes; ``python -m benchmarks.memory_sweep`` runs it.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
APART = {"memory_sweep"}


def names() -> list[str]:
    """The benchmarks of this folder."""
    files = [path for path in FOLDER.glob("*.py") if not path.stem.startswith("_") and path.stem not in APART]
    return sorted(path.stem for path in files if "\ndef main(" in path.read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmarks; returns 1 if one missed its target or failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(names())}; without any: all")
    wanted = parser.parse_args(arguments).names or names()
    if unknown := [name for name in wanted if name not in names()]:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(names())}")
    missed = []
    for name in wanted:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=FOLDER.parent).returncode:
            missed.append(name)
    print(f"\nMissed a target, or failed: {', '.join(missed)}." if missed else "\nEvery target was reached.")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
