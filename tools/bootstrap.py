"""Finds a Python that can run the course and hands over to environment.py, which makes the virtual environment.

Any Python can run this file, 2.7 and the old 3s too: it has to start before it can say that a Python is too old. Hence
no f-strings and no annotations here. It imports the standard library alone.
"""
# ruff: noqa: UP032, RUF005  an old Python could not read the newer syntax that these ask for

import os
import subprocess
import sys

OLDEST = (3, 11)
# The versions that constraints.txt was made for, best first; a newer one is taken only where none of these is found.
TESTED = ((3, 12), (3, 11), (3, 13))

# Debian and Ubuntu ship ensurepip apart from Python, so a Python that starts may still be unable to make environments.
PROBE = """
import sys
try:
    import ensurepip, venv
    able = 1
except ImportError:
    able = 0
print("%d %d %d %s" % (sys.version_info[0], sys.version_info[1], able, sys.executable))
"""

TOO_OLD = """\
This course needs Python {oldest} or newer, and none was found.
Found: {found}.
Looked for: {names}.
Try: install Python {best} (https://www.python.org/downloads/ or your system's package manager) and run the command
again. To name one that is not on the PATH: make lab PYTHON=/path/to/python{best}"""

NO_VENV = """\
Python {version} ({path}) cannot make virtual environments: its module ensurepip is missing.
Try, on Debian and Ubuntu: sudo apt install python{version}-venv
Elsewhere, install Python from https://www.python.org/downloads/. Then run the command again."""


def probe(command):
    """What a command says of itself as Python: (version, whether it can make environments, path); None if it cannot."""
    try:
        process = subprocess.Popen([command, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output = process.communicate()[0].decode("utf-8", "replace").strip()
    except OSError:  # there is no such command
        return None
    parts = output.split(" ", 3)
    if process.returncode != 0 or len(parts) != 4:
        return None
    return (int(parts[0]), int(parts[1])), parts[2] == "1", parts[3]


def dotted(version):
    """(3, 11) as "3.11"."""
    return "{}.{}".format(*version)


def choose(commands):
    """The Python to use among commands, the first of which is the one that runs this file.

    Returns:
        (path, ""), or ("", message) where none will do.
    """
    found = [probed for probed in map(probe, commands) if probed]
    able = [python for python in found if python[0] >= OLDEST and python[1]]
    # min is stable: of equally good ones, the first named wins, so PYTHON=... and the Python in use are honoured.
    if able:
        return min(able, key=lambda python: python[0] not in TESTED)[2], ""
    for version, _, path in found:
        if version >= OLDEST:
            return "", NO_VENV.format(version=dotted(version), path=path)
    return "", TOO_OLD.format(
        oldest=dotted(OLDEST),
        best=dotted(TESTED[0]),
        found=", ".join(sorted({"{} ({})".format(dotted(version), path) for version, _, path in found})) or "no Python",
        names=", ".join(commands[1:]),
    )


def main():
    """Runs environment.py, with this file's arguments, in the Python chosen."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = ["python" + dotted(version) for version in TESTED] + ["python3", "python"]
    if sys.version_info[:2] in TESTED and probe(sys.executable)[1]:
        path, message = sys.executable, ""
    else:
        path, message = choose([sys.executable] + names)
    if message:
        sys.stderr.write(message + "\n")
        return 1
    if path == sys.executable:
        sys.path.insert(0, here)
        import environment

        return environment.main(sys.argv[1:])
    return subprocess.call([path, os.path.join(here, "environment.py")] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
