"""Clinical natural language inference and reading comprehension in JAX."""

__version__ = "1.0.0"
