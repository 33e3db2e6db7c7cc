"""Readers of foreign model files. `python -m analysis.annexes.readers` executes one in a limited subprocess."""
