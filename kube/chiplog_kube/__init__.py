"""The Kubernetes API as Chiplog uses it: objects as plain JSON, compare-and-set, list and watch.

Operator and brokers share it. What they need is a port (`api`), so that a simulated API server
can stand in for the real one (`http_api`).
"""
