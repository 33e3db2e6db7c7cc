"""What the mappings of all architectures are made of."""
