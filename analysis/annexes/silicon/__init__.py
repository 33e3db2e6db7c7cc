"""Design search: many changed devices over several models, judged by speed, energy, power and area."""
