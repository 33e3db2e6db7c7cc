"""The workload of a model as arrays, and the graph of operator calls from which it is lowered."""
