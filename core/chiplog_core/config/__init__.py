"""Kafka's configuration, as data: which keys there are, what they may hold, who wins.

`topic_keys` and `broker_keys` are the tables. Names, types, ranges and defaults are Apache
Kafka 4.3's; where Chiplog differs, the table's module says why. `given` checks what a user wrote,
`effective` says which value is in force and where it came from.
"""
