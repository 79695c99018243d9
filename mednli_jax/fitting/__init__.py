"""Fitters train the model of an experiment: by gradients, by boosting, or on all folds of DisKnE."""
