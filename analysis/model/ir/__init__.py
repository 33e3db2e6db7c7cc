"""The workload of a model as arrays, and the graph of operator calls that it is made from."""
