"""The TCP ports every cluster uses."""

OPERATOR = 9090
"""The operator's questions to brokers, where these have certificates: mTLS."""

INTERNAL = 9091
"""Broker to broker: SASL/SCRAM with the cluster's own secret, and mTLS where brokers have
certificates."""

PLAIN = 9092
"""Clients inside the Kubernetes cluster."""

TLS = 9093
"""Reserved for the TLS listener."""

EXTERNAL = 9094
"""Clients outside the Kubernetes cluster."""

HTTPS = 443
"""Where proxies in front of a cluster take TLS connections."""

METRICS = 9404

HEALTH = 8080
"""Answers `/startupz`, `/readyz`, `/livez` and `/incarnation`, and the operator's questions where
brokers have no certificates."""

RESERVED = frozenset({OPERATOR, INTERNAL, METRICS, HEALTH})
"""Ports that a user's listener must not have, because each broker already listens on them."""

MIN_PORT = 1
MAX_PORT = 65_535

MIN_NODE_PORT = 30_000
MAX_NODE_PORT = 32_767
"""Kubernetes' default range of node ports; a flag of the API server can change it."""
