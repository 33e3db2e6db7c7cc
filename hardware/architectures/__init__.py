"""One module per architecture, with all that is particular to it; `registry` lists them."""
