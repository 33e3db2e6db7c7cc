"""What knows no hardware: files, text, errors, records, plug-ins."""
