"""From a graph of operator calls to a workload."""
