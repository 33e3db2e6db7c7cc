"""One module per report: its help in the first line, and `VERB`, a `hwexplorer.declare.Report`."""
