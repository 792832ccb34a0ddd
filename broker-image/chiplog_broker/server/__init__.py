"""Connections: frames in, calls dispatched, answers out; health, metrics and inquiries."""
