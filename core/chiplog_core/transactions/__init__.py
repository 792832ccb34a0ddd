"""Transactions at their coordinator: states, epochs of producers, timeouts.

The state of a transactional id is one record in `__transaction_state`. Each module decides what a
request or a passed time means for it, and returns an answer, the record to store, and the markers
to write. Pure: no clock, no log, no network, no waiting.
"""
