"""What is said of runs on sentence pairs."""
