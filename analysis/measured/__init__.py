"""Measured rows: the shipped tables, results of benchmark tools, and their predictions."""
