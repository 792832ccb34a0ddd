"""Keeps full garbage collections from pausing the process every few seconds.

A full collection of CPython traverses all objects, and nothing else runs in the meantime. With
10,000 partitions that takes a quarter of a second, every few seconds under load. Objects that
survive a long collection are long-lived, so they are frozen (`gc.freeze`) and not traversed again
for an hour. This keeps only garbage in reference cycles alive, for up to an hour longer.
"""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Final

LONG_MS: Final = 10.0
FULL_SCAN_INTERVAL_S: Final = 3_600.0
_FULL: Final = 2
"""The number of the oldest generation."""


class FullCollections:
    """Freezes the objects that survived a long full collection. Create one for each process."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._began_s = 0.0
        self._last_full_scan_s = monotonic_s()
        """When all objects were last unfrozen."""

    def begin(self) -> None:
        """Measure garbage collections until `end`, and freeze objects after long ones."""
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        """Stop watching, and unfreeze all objects."""
        gc.callbacks.remove(self._on_collection)
        gc.unfreeze()

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Called by `gc` at the start ("start") and end ("stop") of each collection.

        After a long full collection all present objects are exempted from later ones
        (`gc.freeze`), because traversing them again would block the event loop as long. They are
        unfrozen every `FULL_SCAN_INTERVAL_S`, so that garbage among them is freed.
        """
        if info["generation"] != _FULL:
            return
        now_s = self._monotonic_s()
        if phase == "start":
            self._began_s = now_s
        elif now_s - self._last_full_scan_s >= FULL_SCAN_INTERVAL_S:
            # The next collection traverses everything.
            self._last_full_scan_s = now_s
            gc.unfreeze()
        elif (now_s - self._began_s) * 1000 >= LONG_MS:
            gc.freeze()
