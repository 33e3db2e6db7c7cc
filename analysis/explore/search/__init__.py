"""Many configurations evaluated over a grid: sweeps, the Pareto front, search within constraints, and the workers."""
