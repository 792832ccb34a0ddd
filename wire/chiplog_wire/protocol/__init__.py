"""The Kafka wire protocol without I/O: bytes in, values out.

    FrameReader - parse_request - codec.decode_request - (handlers) - codec.encode_response

Nothing here waits, reads a clock or touches a socket. Whatever a peer sends, the only
exception that leaves this package is `ProtocolViolation`, and no number from the wire
decides how much memory is taken before the bytes it speaks of have arrived.
"""
