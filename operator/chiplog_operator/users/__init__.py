"""Users of clusters: their Secrets, and what brokers read of them.

`chiplog_core.users` decides. Secrets are read by name and never listed or watched.
"""
