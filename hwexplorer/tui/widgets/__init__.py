"""Drawing of panes. Modules but `framed_pane` and `card_strip` hold plain objects that turn a size into segments."""
