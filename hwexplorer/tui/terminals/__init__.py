"""The terminal that the program runs in: drivers for a terminal and a browser, and the clipboard."""
