"""One module per report: its first line is the help, and `VERB` is a `hwexplorer.declare.Report`."""
