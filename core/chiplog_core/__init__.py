"""What Chiplog decides: value types, validation and planners.

Everything here is a pure function or a frozen value. Nothing here waits, reads a
clock, touches a file or imports more than the standard library, so that the
operator, the broker, the simulator and the tests all run the same decisions.

The directories, from the top. Each may import those below it and none above it; the import contract
"core's layers" in `pyproject.toml` holds them to that.

* `planner`, `group_watch`, `spark`: what the operator does next, for a cluster, for its consumer
  groups, for Spark jobs. `operator_lease`: which operator process it is that does it.
* `rebalance`, `groups`, `admin`: the even spread of replicas and leaders; a consumer group, as its
  coordinator keeps it; what admin clients may ask for.
* `observed`: what is known of a cluster at one moment.
* `validate`, `policies`: whether what a user asks for can be done, and may be.
* `model`: the objects of the API group, as values, and the writes to them.
* `manifest`: how values are read from manifests and written into them.
* `config`: Kafka's configuration keys, of topics and brokers.
* `naming`, `telemetry`: what things are called in Kubernetes; the form of logs,
  metrics and checks.

Modules that lie in no directory are words that all of them use: `ids`, `limits`, `problems`,
`durations`, `quantities`.
"""
