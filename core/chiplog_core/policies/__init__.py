"""Topic policies: the rules of a BrokerCluster for all topics, however these are created or
changed."""
