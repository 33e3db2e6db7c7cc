"""The references that are generated: verbs, man page, terms of the README."""
