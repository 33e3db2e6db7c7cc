"""Numbers, terms and commands as text for people."""
