"""Export of views as text, JSON, CSV, Markdown and HTML, and atomic writing of files."""
