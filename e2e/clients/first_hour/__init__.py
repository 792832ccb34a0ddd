"""Tests of what a user does in the first hour, on any brokers.

The test classes here are run twice: by `e2e/clients/tests/test_first_hour.py` on a standalone
broker, and by `e2e/main/tests/first_hour` on a cluster in Kubernetes. Both provide the fixture
`place`.
"""
