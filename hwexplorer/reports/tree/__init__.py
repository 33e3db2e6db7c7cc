"""Model, subgraphs and operators with their energy-delay product, and how both divide."""
