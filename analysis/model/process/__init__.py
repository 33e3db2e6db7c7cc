"""Work in a separate process with limits on memory, time and output."""
