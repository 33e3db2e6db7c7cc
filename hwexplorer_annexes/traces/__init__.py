"""Traces of profilers, read into one type (`trace_record.Trace`) and compared with an estimate."""
