"""`python -m e2e.cluster`: see `cli.py`."""

from e2e.cluster.cli import app

app(prog_name="cluster")
