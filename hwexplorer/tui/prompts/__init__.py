"""What is typed in the footer: find, filter, command, export."""
