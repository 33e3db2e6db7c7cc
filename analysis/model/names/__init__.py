"""The meaning of a model's name."""
