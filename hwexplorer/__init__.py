"""hwexplorer: what neural networks cost on hardware, and why, in a terminal."""

__version__ = "0.1.0"
