"""Clinical natural language inference and reading comprehension in JAX."""

__version__ = "0.1.0"
