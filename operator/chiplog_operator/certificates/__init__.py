"""The cluster's CAs and the brokers' certificates: read, issued and put into Secrets.

`chiplog_core.certificates` decides. Nothing outside of this folder handles private keys.
"""
