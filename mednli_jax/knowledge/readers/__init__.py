"""Readers of terminologies and of mentions found by other programs."""
