"""State + analysis -> plain data. The screen and the exporters both render these, so they cannot disagree."""
