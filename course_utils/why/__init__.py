"""Why PyTorch refused, or said nothing: the index of its errors (``pages``)."""
