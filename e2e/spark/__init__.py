"""Spark in local mode beside a broker by itself.

`session.py` starts the one JVM that every test with the marker `spark` shares, here and in
`spark-jobs/tests`. Its `pom.xml` names Apache Spark's own source and sink for Kafka: what runs here
is that, unchanged.
"""
