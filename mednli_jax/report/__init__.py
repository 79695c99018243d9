"""Analyses of corpora and of saved predictions. They need strings and NumPy, and no model."""
