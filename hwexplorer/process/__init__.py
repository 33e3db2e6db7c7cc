"""This process: its output, its signals, and how to start the program again."""
