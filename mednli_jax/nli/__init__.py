"""Natural language inference: readers, formats and encoding of pairs."""
