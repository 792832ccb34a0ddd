"""The follower side of replication: fetches from the leaders of partitions on other brokers."""
