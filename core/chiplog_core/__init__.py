"""Chiplog's decisions: value types, validation and planners.

Everything here is a pure function or a value. Nothing here waits, reads a clock, accesses a file or
imports more than the standard library, so that the operator, the broker, the simulator and the
tests all use the same code for decisions.

The directories, from top to bottom. Each may import those below it and none above it; the import
contract "core's layers" in `pyproject.toml` enforces that.

* `planner`, `group_watch`, `spark`: the next actions of the operator, for a cluster, its consumer
  groups, and Spark jobs. `operator_lease`: which operator process is active.
* `rebalance`, `groups`, `admin`: the even distribution of replicas and leaders; a consumer group at
  its coordinator; the operations of admin clients.
* `observed`: the observed state of a cluster at one moment.
* `validate`, `policies`: whether the spec of an object can be carried out, and is allowed.
* `model`: the objects of the API group, as values, and the writes to them.
* `manifest`: how values are read from manifests and written to them.
* `config`: Kafka's configuration keys, of topics and brokers.
* `naming`, `telemetry`: names in Kubernetes; the formats of logs, metrics and checks.

The modules that are in no directory are used by all: `ids`, `limits`, `problems`, `durations`,
`quantities`.
"""
