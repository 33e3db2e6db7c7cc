"""From the words of the command line to a state, its models, and the answer of a report."""
