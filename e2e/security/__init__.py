"""Authorization: the same requests to Chiplog and to Apache Kafka, under the same ACLs.

`python -m e2e.security` asks Apache Kafka again, and writes its answers to `kafka.json`. The test
compares Chiplog with these.
"""
