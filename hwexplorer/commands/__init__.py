"""One module per verb that does more than print: the first line is its help, `VERB` its declaration (declare.py)."""
