"""Show the parts of a model with their energy-delay product (EDP), the costliest first."""
