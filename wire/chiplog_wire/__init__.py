"""What both ends of a connection share: Kafka's protocol, its record batches, its logins.

    protocol    frames, headers and messages, for the end that asks and the end that answers
    client      the end that asks, as a library without I/O
    records     batches of records, as they are sent and as they lie in segments
    scram       both halves of a login

Values in, values out: nothing here waits, reads a clock or touches a socket or a file.
"""
