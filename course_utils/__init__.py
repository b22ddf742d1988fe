"""See what autograd keeps alive, check answers, explain mistakes."""
