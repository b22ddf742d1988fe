"""Compare two ways of doing something, and say what they were measured on."""
