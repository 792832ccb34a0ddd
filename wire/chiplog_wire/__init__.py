"""What both ends of a connection share: Kafka's protocol, record batches, and logins.

    protocol  frames, headers and messages, for both ends
    client    the client's end, as a library without I/O
    records   batches of records, as they are sent and stored
    scram     both ends of a login

All of it is pure: nothing here waits, reads a clock, or uses a socket or a file.
"""
