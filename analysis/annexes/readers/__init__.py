"""Readers of foreign model files. `python -m analysis.annexes.readers` runs one in a limited process of its own."""
