"""What happens to tensors as a program runs: one dispatch mode shows every operation, and logs are written from it."""
