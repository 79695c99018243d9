"""What can be said of a corpus or of saved predictions without a model. Strings and NumPy only."""
