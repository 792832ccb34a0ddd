"""Kafka's configuration, as data: the keys, their allowed values, and which value is in force.

`topic_keys` and `broker_keys` are the tables. Names, types, ranges and defaults are Apache
Kafka 4.3's; where Chiplog differs, the table's module says why. `given` checks what a user wrote,
`effective` says which value is in force and where it came from.
"""
