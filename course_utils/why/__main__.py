"""``python -m course_utils.why script.py``: why did it fail, and which line of mine did it; see ``command``."""

import sys

from course_utils.why.command import main

if __name__ == "__main__":
    sys.exit(main())
