"""The lessons of the catalogue (``LOADED``). Where one cannot be loaded, that is said without a traceback."""

import pytest

from course_utils import Lesson
from course_utils.catalogue import LESSONS

try:
    LOADED = {info.name: Lesson(info.name) for info in LESSONS}
except ValueError as error:  # a text file is wrong: the message is for the lesson's author
    pytest.fail(str(error), pytrace=False)
