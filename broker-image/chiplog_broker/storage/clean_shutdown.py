"""`.kafka_cleanshutdown`: the mark of a clean shutdown, with the epoch of the broker.

It says that everything was durable and nothing was written afterwards. So a start removes it,
durably, before anything is written.
"""

import json

VERSION = 0


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """The content of the file that marks a clean shutdown of the broker of this epoch."""
    return json.dumps(
        {"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")
    ).encode()


def decode_clean_shutdown(data: bytes) -> int | None:
    """The epoch of the broker; None if the file contains none."""
    try:
        content = json.loads(data)
    except ValueError:
        return None
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) else None
