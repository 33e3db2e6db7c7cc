"""Costs of one operator call, by its ATen name."""
