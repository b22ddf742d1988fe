"""What a learner has earned, kept on disk (``events``) and shown (``tables``)."""
