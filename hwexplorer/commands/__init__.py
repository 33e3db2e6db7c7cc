"""One module per verb: `arguments(parser)` declares its options, `run(arguments)` does it."""
