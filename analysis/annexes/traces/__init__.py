"""Traces of profilers, read as one kind of record (`trace.Trace`) and compared with an estimate."""
