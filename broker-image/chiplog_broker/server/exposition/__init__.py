"""The metrics for Prometheus, under the names that users' dashboards already query.

* `requests`, `replicas`, `disk`, `cleaner`: families about the broker as a whole.
* `topics`, `partitions`: the series of single topics and partitions.
* `scrape`: all of it as one text.
"""
