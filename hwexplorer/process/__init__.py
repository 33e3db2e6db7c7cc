"""This process: its output, its signals, and how it is started once more."""
