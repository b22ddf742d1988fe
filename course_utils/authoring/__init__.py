"""For authors: text files and solution notebooks in; headings, checks, learner notebooks, the map of the course out.

``python -m course_utils.authoring build|lint|run|programs|card``. Factories for cells are in ``cells``; reading
and writing notebook files in ``files``; what follows from the text files in ``derive``; the step from solution to
learner notebook in ``build``; running a solution in ``execute``; the rules in ``rules``; the card of an answer in
``entered``. Needs the ``classroom`` extra, because the learner notebooks are made by nbgrader's own code.
"""
