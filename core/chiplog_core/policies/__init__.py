"""Topic policies: what a BrokerCluster asks of every topic, judged alike for everybody."""
