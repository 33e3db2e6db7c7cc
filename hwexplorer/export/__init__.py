"""Views to text, JSON, CSV and Markdown, and onto disk in one piece."""
