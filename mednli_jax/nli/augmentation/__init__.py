"""Augmentation: training pairs made by substitutions of words, and the polarity of words in a
sentence."""
