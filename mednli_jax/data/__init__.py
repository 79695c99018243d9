"""Readers: from the official files of a corpus to splits of examples, and from examples to arrays on disk."""
