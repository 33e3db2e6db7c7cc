"""Which model a name means."""
