"""Baselines without a neural network, on strings and NumPy."""
