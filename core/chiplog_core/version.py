"""The version of Chiplog.

The package's metadata (`pyproject.toml`), the charts and the tags of images get it from here;
`make generate` writes it into the charts. Programs read this module, too, because images contain
the packages without their metadata.
"""

from typing import Final

VERSION: Final = "0.1.0.dev0"
"""In the form of PEP 440: `X.Y.Z`, or `X.Y.Z.devN` and `X.Y.ZrcN` before that release."""
