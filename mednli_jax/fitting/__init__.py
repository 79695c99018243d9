"""Fitters: what trains a model for an experiment, by gradients, by boosting, or fold by fold."""
