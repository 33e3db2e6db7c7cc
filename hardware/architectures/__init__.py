"""One module per architecture, with everything particular to it; known.toml lists them."""
