"""How long one piece of work may occupy the event loop."""

from typing import Final

SLICE_S: Final = 0.005
"""Long work runs this long at a time; then other tasks run before it continues."""
