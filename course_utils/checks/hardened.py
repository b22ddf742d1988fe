"""Python's built-in names, bound before any answer can replace them.

Where a module says ``from course_utils.checks.hardened import __builtins__``, its functions look ``len`` and the like
up in this copy: when Python makes a function, it takes the built-in names from the module's ``__builtins__``. The copy
lives in this room because the classroom loads the room twice, once to judge and once for students to find: so no name
leads a student to the copy that judges.
"""

import builtins

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # a module or its dict, says Python
