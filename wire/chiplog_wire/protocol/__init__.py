"""The Kafka wire protocol without I/O: bytes in, values out.

    FrameReader - parse_request - codec.decode_request - (handlers) - codec.encode_response

Nothing here waits, reads a clock or uses a socket. Whatever a peer sends, the only exception of
this package is `ProtocolViolation`, and no memory is allocated for announced bytes before they have
arrived.
"""
