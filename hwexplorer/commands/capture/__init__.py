"""Capture models, of your own or not: coverage, and a file to open elsewhere."""
