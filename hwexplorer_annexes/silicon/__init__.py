"""Design search: compares many changed devices over several models by speed, energy, power and area."""
