"""The metrics for Prometheus, with the names of Kafka's metrics that dashboards use.

* `requests`, `replicas`, `disk`, `cleaner`, `transactions`: families about the broker as a whole.
* `topics`, `partitions`: the series of single topics and partitions.
* `scrape`: all of it as one text.
"""
