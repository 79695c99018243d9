"""Sentence pairs as arrays: texts, and the links of their concepts."""
