"""`python -m lab.reference` writes the generated files of the checkout."""

from pathlib import Path

from lab.reference import FILES

for name, make in FILES.items():
    Path(name).write_text(make(), encoding="utf-8")
