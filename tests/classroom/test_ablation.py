"""Each defence stops an attack that wins as soon as it alone is switched off. What has none stops nothing, and goes."""

import pytest

from course_utils.classroom.judging.grader import Grader
from course_utils.classroom.judging.limits import Limits
from course_utils.classroom.sandbox import bubblewrap
from tests.classroom.attacks import ATTACKS
from tests.classroom.handed_in import NEEDS_SANDBOX
from tests.classroom.test_attacks import looked_at, result

pytestmark = [*NEEDS_SANDBOX, pytest.mark.nightly]

AUDIT = "import course_utils.classroom.tampering.audit as audit\n"
NAMES = "import course_utils.classroom.tampering.names as names\n"
RUNNER = "import course_utils.classroom.sandbox.runner as runner\n"


def deaf_to(*events):
    """The audit without these events."""
    return AUDIT + f"audit._WATCHED -= {set(events)!r}\n"


# What switches a defence off in the warm interpreter, and an attack that wins then.
DEFENCES = {
    "frames of other threads are refused": (deaf_to("sys._current_frames"), "the judge's frame, from another thread's"),
    "frames of callers are refused": (deaf_to("sys._getframe"), "the judge's frame, above its own"),
    "frames of tracebacks are refused": (
        AUDIT + "audit._FRAME_ATTRIBUTES = frozenset()",
        "the judge's frame, by a traceback",
    ),
    "traces are refused": (deaf_to("sys.settrace"), "the judge's frame, by a trace"),
    "no answer runs in the main thread": (
        RUNNER + "runner._in_a_thread = lambda function: function()",
        "the judge's frame, by a signal",
    ),
    "ctypes is refused": (
        AUDIT + "import types, sys\n"
        "def quiet(hook):\n"
        "    sys.addaudithook(lambda event, values: None if event.startswith('ctypes.') else hook(event, values))\n"
        "audit.sys = types.SimpleNamespace(**{**vars(sys), 'addaudithook': quiet})",
        "the judge's frame, by ctypes",
    ),
    "code under another's name is refused": (deaf_to("compile"), "the judge's frame, by code with another's name"),
    "audit hooks are refused": (deaf_to("sys.addaudithook"), "the judge's frame, by an audit hook"),
    "lists of objects are refused": (deaf_to("gc.get_objects"), "the collector's lists, in the answer"),
    "unfreezing is seen": (
        AUDIT + "audit.gc = __import__('types').SimpleNamespace(get_freeze_count=lambda: 0)",
        "the collector's lists, in a cell",
    ),
    "profiles are taken off at a fork": (RUNNER + "runner._set_profile = id", "a profile that a cell has set"),
    "files of memory are refused": (
        deaf_to("open"),
        "the secret, read from the process's memory",
    ),
    "ctypes' memory calls are announced": (
        AUDIT + "audit.announce_memory_calls = lambda: None",
        "a number of the check is another, by ctypes",
    ),
    "the code of functions is refused": (deaf_to("object.__setattr__"), "the code of a function of torch's"),
    "names are compared": (NAMES + "names._put_back = lambda *_: []", "a name of torch's"),
    "modules are compared": (
        NAMES + "names.sys = __import__('types').SimpleNamespace(**{**vars(names.sys), 'modules': {}})",
        "a module in the table of modules",
    ),
    "operations of torch are compared": (NAMES + "names._kernels = frozenset", "an operation in torch's dispatcher"),
    "hooks are compared": (NAMES + "names._holds_the_same = lambda *_: True", "a hook on all modules"),
    "results are signed": (
        "import course_utils.classroom.sandbox.supervisor as supervisor, json\n"
        "supervisor.opened = lambda envelope, *_: json.loads(envelope['body'])",
        "messages of the right length on every descriptor",
    ),
    "a signature is for one request": (
        "import course_utils.classroom.sandbox.protocol as protocol\n"
        "plain = protocol._proof\n"
        "protocol._proof = lambda body, secret, request: plain(body, secret, {'ticket': request.get('ticket')})",
        "another exercise is asked for than the supervisor wants",
    ),
    "students have judges of their own": (
        "import course_utils.classroom.sandbox.zygote as zygote\n"
        "zygote._give_students_judges_of_their_own = lambda names: None",
        "the truth is asked for",
    ),
}
ROWS = {attack.name: attack for rows in ATTACKS.values() for attack in rows}


@pytest.mark.parametrize(("off", "name"), DEFENCES.values(), ids=DEFENCES)
def test_a_defence_that_is_switched_off_lets_an_attack_win(off, name, monkeypatch):
    attack = ROWS[name]
    monkeypatch.setattr(bubblewrap, "ENTRY", f"(exec({off!r}, {{}}), {bubblewrap.ENTRY})[1]")
    with Grader(Limits(wall_seconds=60.0, check_seconds=10.0)) as grader:
        report = grader.grade(attack.released(), attack.submitted(), student="eve", assignment=attack.assignment)
    won = [key for key, worth in attack.cheated.items() if result(report, key).earned > worth]
    assert won and not any(looked_at(report, key) for key in won), (report.exercises, report.reviews)
