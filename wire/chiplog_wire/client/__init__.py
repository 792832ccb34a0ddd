"""The asking end of a connection, without I/O.

    connection  requests to bytes, bytes to answers
    opening     what is said before the first real request: versions, then a login

The caller has the socket. It writes what `ClientConnection.send` returns, hands over what it reads,
and takes answers; it also decides how long to wait.
"""
