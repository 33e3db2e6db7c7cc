"""Design search, a section of `tune`."""
