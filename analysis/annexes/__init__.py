"""Jobs beside exploring, each a folder with its own door: the main house never imports them."""
