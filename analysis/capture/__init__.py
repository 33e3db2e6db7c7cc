"""Capture a PyTorch module as a workload. Importing torch takes seconds: code that must start quickly runs `capture.py`
in a subprocess."""
