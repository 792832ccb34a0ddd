"""The client's end of a connection, without I/O.

    connection  encodes requests and decodes answers
    opening     the first requests: versions, then a login

The caller has the socket. It writes what `ClientConnection.send` returns, passes received bytes to
it, and takes answers; it also decides how long to wait.
"""
