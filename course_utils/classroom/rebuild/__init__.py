"""From what was handed in to a notebook that can be judged."""
