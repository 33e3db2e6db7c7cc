"""The terminal that the program runs in: its driver and the clipboard."""
