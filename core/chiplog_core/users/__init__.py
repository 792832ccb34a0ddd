"""Users of clusters: what brokers need to know of them, and which credentials they need.

Facts in, decisions out: passwords, keys and the API server are the operator's.
"""
