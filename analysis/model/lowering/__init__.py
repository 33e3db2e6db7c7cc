"""Lowering of a graph of operator calls to a workload."""
