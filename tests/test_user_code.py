"""Which code is the user's own, and where it is at the moment."""

import sys

from course_utils.base.user_code import count_as_users, user_site


def test_a_script_among_the_libraries_counts_from_when_it_is_called_the_users(tmp_path):
    path = str(tmp_path / "site-packages" / "script.py")
    space = {"here": lambda: user_site(sys._getframe(1))}
    exec(compile("def where():\n    return here()", path, "exec"), space)
    assert space["where"]().file == __file__
    count_as_users(path)
    assert (space["where"]().file, space["where"]().line) == (path, 2)
