"""Transactional producers, and readers of committed records.

* `wire`: the requests of a transactional producer.
* `producer`: one process of a transactional id, and what it does after errors.
* `second`: the same by the second generation of the protocol.
* `epochs`: lets a producer's epochs be used up soon.
* `reader`: reads only committed records, and filters aborted ones as Kafka's clients do.
* `crowd`: all of them together, and the final reads.
* `history`: what they did and got, for the checkers.
"""
