"""For authors: solution notebooks in, learner notebooks out, and the proofs that the two agree.

``python -m course_utils.authoring build|check|lint|run|card``. Factories for cells are in ``cells``; reading and
writing notebook files in ``files``; the step from solution to learner notebook in ``build``; running a solution in
``execute``; the rules in ``lint``; the card of an answer in ``entered``. Needs the ``classroom`` extra, because the
learner notebooks are made by nbgrader's own code.
"""
