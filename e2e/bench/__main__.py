"""`python -m e2e.bench`: see `cli.py`."""

from e2e.bench.cli import app

app(prog_name="bench")
