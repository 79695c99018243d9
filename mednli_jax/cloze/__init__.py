"""Cloze queries over passages: readers, set-ups and encoding."""
