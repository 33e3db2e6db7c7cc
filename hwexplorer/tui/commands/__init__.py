"""The `:` line: the table of its commands, completion, and running a line."""
