"""Compares Kubernetes' own API server with the simulated one."""
