"""Capture a PyTorch module as a workload. Importing torch takes seconds: code that must start quickly runs this package
as a subprocess (`python -m analysis.capture`)."""
