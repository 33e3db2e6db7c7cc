"""Convert the words of the command line to a state, capture its models, and answer a report."""
