"""What lies over the panes: a module for each, with a screen of its own that has its own keys."""
