"""Tables of DisKnE and of runs on its folds."""
