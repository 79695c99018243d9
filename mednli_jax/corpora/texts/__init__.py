"""Running text for masked language models."""
