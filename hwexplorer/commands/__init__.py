"""One module per verb that does more than print: its help in the first line, and `VERB` (hwexplorer.declare.Verb)."""
