"""How an answer is judged: exercises and their claims, the trial they run in, scores and cards."""
