"""The transaction coordinator: the partitions of `__transaction_state` that this broker leads.

The rules are in `chiplog_core.transactions`, the stored records in `chiplog_broker.transactions`.
These modules load and append the records, answer clients once the records are safe, and have the
markers written to the partitions of each transaction.
"""
