"""What is built on the tracker: the line probe and the notebook magics."""
