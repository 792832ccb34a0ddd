"""What each API checks before its handler runs, as Kafka 4.3 does.

`rules` is the table: API -> rule. A rule lets a request pass, refuses it, or passes a part of it
and adds the errors of the rest to the answer. So handlers know nothing of ACLs, and without an
authorizer they are called directly. Only Fetch is checked where it reads, because the fetch of a
session does not name its partitions.
"""
