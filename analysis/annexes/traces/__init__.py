"""Measured time by operator: profiles and traces of other tools read as one kind of record (`record.Trace`).

Each module reads the files of one tool; `read.read` finds out which. Files are data: nothing in them is executed,
sizes are bounded, and what is not as its tool writes it ends in one line (`TraceError`)."""
