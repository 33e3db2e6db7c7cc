"""The prompts in the footer: find, filter, command, export."""
