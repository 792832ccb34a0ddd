"""`.kafka_cleanshutdown`: the mark of an orderly end, and the epoch of the broker that set it.

It says that everything was made durable and nothing was written since. It is therefore
taken away, durably, before anything is written.
"""

import json

VERSION = 0


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps(
        {"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")
    ).encode()


def decode_clean_shutdown(data: bytes) -> int | None:
    """The broker's epoch; None where the file does not say one."""
    try:
        content = json.loads(data)
    except ValueError:
        return None
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) else None
