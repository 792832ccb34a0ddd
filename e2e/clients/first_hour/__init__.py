"""What a user does in the first hour, on whatever brokers are given.

The test classes here are run twice: `e2e/clients/tests/test_first_hour.py` has a broker by itself,
`e2e/main/tests/first_hour` a cluster on Kubernetes. Each gives a fixture `place`.
"""
