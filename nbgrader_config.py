"""nbgrader's settings for this course: read by ``nbgrader`` in this folder and by ``python -m course_utils.authoring``.

It makes ``notebooks/`` what it is. The folder of a class has settings of its own: ``autograd-control classroom init``.
"""

from course_utils.authoring.stubs import preprocessors

c = get_config()  # noqa: F821  traitlets puts get_config in this file's namespace before it runs it

# What stands in place of a solution. `pass` is right wherever a statement is, at module level as in a function or
# class, so that Run All on an untouched notebook reaches the last cell; `raise NotImplementedError` would stop it.
c.ClearSolutions.code_stub = {"python": "# Your answer here.\npass"}
c.GenerateAssignment.preprocessors = preprocessors()  # a dict of `...` is its own place for the answer
c.ClearSolutions.text_stub = "*Your answer here.*"
