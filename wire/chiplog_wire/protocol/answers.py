"""The types that answers are made of, for every API whose codec is kio's.

`answers(ApiKey.LIST_OFFSETS).ListOffsetsResponse(...)`. kio marks its integers with types
of its own, which would have to be wrapped around every number; the answers are checked by
the codec's tests and by real clients instead, so they are `Any` here.
"""

import importlib
from datetime import timedelta
from functools import cache
from typing import Any, Final

from chiplog_wire.protocol.apis import APIS, ApiKey

NO_THROTTLE: Final = timedelta(0)


@cache
def answers(key: ApiKey) -> Any:
    """kio's module with the response of the newest version that we serve.

    Imported when the first such request comes: all of them together would cost more than
    everything else at start-up.
    """
    version = APIS[key].max_version
    return importlib.import_module(f"kio.schema.{key.name.lower()}.v{version}.response")


def milliseconds(duration: timedelta) -> int:
    """What kio made a duration, as the number that was sent."""
    return duration // timedelta(milliseconds=1)
