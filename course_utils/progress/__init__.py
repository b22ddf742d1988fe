"""What a learner has earned, kept on disk (``store``) and shown (``tables``)."""
