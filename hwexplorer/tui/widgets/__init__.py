"""What the panes are drawn with. All but `pane` are plain objects that turn a size into segments."""
