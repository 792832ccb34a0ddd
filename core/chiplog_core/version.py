"""Which version this is: the one place that says so.

The package's metadata (`pyproject.toml`), the charts and the tags of images take it from here;
`make generate` writes it into the charts. Images hold the packages without their metadata, so
programs read this module too.
"""

from typing import Final

VERSION: Final = "0.1.0.dev0"
"""As PEP 440 has it: `X.Y.Z`, or `X.Y.Z.devN` and `X.Y.ZrcN` before that release."""
