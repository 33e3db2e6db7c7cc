"""One module per architecture, with everything particular to it; `known_architectures` lists them."""
