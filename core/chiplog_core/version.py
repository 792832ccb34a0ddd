"""Which version this is: the same in every program, chart and image of one checkout."""

from typing import Final

VERSION: Final = "0.1.0.dev0"
"""As `pyproject.toml` has it. Images hold the packages without their metadata."""
