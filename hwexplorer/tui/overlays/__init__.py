"""The overlays, which cover the panes: each has a module, a screen and keys."""
