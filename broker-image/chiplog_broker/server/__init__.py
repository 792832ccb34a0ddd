"""Connections, requests and answers; health probes, metrics and the operator's inquiries."""
