"""The parts that the mappings of all architectures share."""
