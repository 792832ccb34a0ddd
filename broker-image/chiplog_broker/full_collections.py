"""Full garbage collections that nobody has to wait for again and again.

CPython looks at every object there is when enough of them have lived through younger collections,
and nothing else runs meanwhile: with 10,000 partitions a quarter of a second, every few seconds
under load. What has survived a look that took long is there to stay, so it is set apart and not
looked at again until an hour has passed. Nothing is kept alive by that but garbage in circles,
and that for an hour more.
"""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Final

LONG_MS: Final = 10.0
LOOK_AGAIN_S: Final = 3_600.0
_FULL: Final = 2
"""The number of the oldest generation."""


class FullCollections:
    """Sets apart what survived a long one. There is one collector in a process."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._began_s = 0.0
        self._looked_s = monotonic_s()
        """When everything was last open to be looked at."""

    def begin(self) -> None:
        """From now on, until `end`."""
        gc.callbacks.append(self._told)

    def end(self) -> None:
        """Leave the collector as it was found."""
        gc.callbacks.remove(self._told)
        gc.unfreeze()

    def _told(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] != _FULL:
            return
        now_s = self._monotonic_s()
        if phase == "start":
            self._began_s = now_s
        elif now_s - self._looked_s >= LOOK_AGAIN_S:
            # The next one looks at everything.
            self._looked_s = now_s
            gc.unfreeze()
        elif (now_s - self._began_s) * 1000 >= LONG_MS:
            gc.freeze()
