"""Apache Kafka beside Chiplog: its command-line tools, and a broker of it to compare with.

Chiplog claims to be what Kafka's own programs take for Kafka. The claim is only
worth something if those programs are the real ones, so they come from Maven
Central, in one fixed version, and are kept in the cache (`jars.py`). Nothing of
Apache Kafka is needed to run Chiplog.
"""
