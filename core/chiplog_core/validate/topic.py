"""Rules for topics."""

from collections.abc import Iterator, Mapping

from chiplog_core.config.broker_keys import DEFAULT_REPLICATION_FACTOR
from chiplog_core.config.effective import broker_value
from chiplog_core.config.given import given_broker_config, given_topic_config, warn_about_values
from chiplog_core.config.topic_keys import MIN_INSYNC_REPLICAS
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import DeletionPolicy, Growth, GrowthStrategy, Topic, TopicSpec
from chiplog_core.problems import Problem, Reason
from chiplog_core.topic_name import NAMES_OF_NO_TOPIC, collision_key, is_internal
from chiplog_core.validate.unbuilt import Feature, is_built, unless_built

MIN_ISR_FIELD = f"spec.config[{MIN_INSYNC_REPLICAS.name}]"


def check_topic(topic: Topic) -> tuple[Problem, ...]:
    """Problems with a Topic itself."""
    return tuple(
        problem
        for rule in (_name, _config, _growth, _deletion, _assignments, _unbuilt)
        for problem in rule(topic)
    )


def check_topic_in_cluster(topic: Topic, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with a Topic in the cluster that it names."""
    return (*_namespace(topic, cluster), *_replicas_in_cluster(topic, cluster))


def check_topic_change(before: Topic, after: Topic) -> tuple[Problem, ...]:
    """Problems with changing a Topic from `before` to `after`."""
    problems = []
    if before.spec.cluster_ref != after.spec.cluster_ref:
        remedy = "delete this Topic and create one for the other cluster"
        problems.append(Problem("spec.clusterRef", "cannot be changed", remedy))
    if before.topic_name != after.topic_name:
        remedy = "create another Topic; a topic cannot be renamed"
        problems.append(Problem("spec.topicName", "cannot be changed", remedy))
    if before.spec.partitions is not None:
        problems.extend(check_partition_count(before.spec.partitions, after.spec))
    return tuple(problems)


def check_partition_count(current: int, spec: TopicSpec) -> tuple[Problem, ...]:
    """Problems with changing the number of partitions from `current` to the spec's."""
    shrinks = spec.partitions is not None and spec.partitions < current
    can_repartition = is_built(Feature.REPARTITION)
    is_repartition = _strategy(spec.growth) is GrowthStrategy.REPARTITION
    if not shrinks or (can_repartition and is_repartition):
        return ()
    alternative = ", or set spec.growth.strategy to Repartition" if can_repartition else ""
    return (
        Problem(
            "spec.partitions",
            f"is {spec.partitions}, but the topic has {current} and partitions cannot be removed",
            f"set it to {current} or more{alternative}",
            Reason.NOT_SUPPORTED,
        ),
    )


def check_topic_name_is_free(
    topic: Topic, owners: Mapping[str, str], objects: Mapping[str, str]
) -> tuple[Problem, ...]:
    """The problem if another Topic of the cluster has the topic's name, or a name that collides
    with it in Kafka's metrics.

    `owners` maps each name in use in the cluster to the uid of the Topic that owns it. `objects`
    maps the uid of each existing Topic to its namespace and name, as messages show them.
    """
    name, uid = topic.topic_name, topic.metadata.uid
    for other, owner in sorted(owners.items()):
        if owner == uid or collision_key(other) != collision_key(name):
            continue
        message = (
            f"is {name}, which another Topic ({objects.get(owner, f'uid {owner}')}) already has"
            if other == name
            else f"is {name}, which collides in Kafka's metric names with topic {other}"
        )
        return (
            Problem("spec.topicName", message, "choose another name", Reason.RESOURCE_CONFLICT),
        )
    return ()


def warn_about_topic(topic: Topic) -> tuple[Problem, ...]:
    """Warnings about settings that work but may surprise users."""
    found = warn_about_values(topic.spec.config)
    replicas, min_isr = topic.spec.asked_replicas, _own_min_isr(topic)
    if replicas is None or replicas == 1 or min_isr != replicas:
        return found
    return (
        *found,
        Problem(
            MIN_ISR_FIELD,
            f"equals {_replicas_field(topic)} ({replicas}), so a single unavailable broker blocks "
            "all writes with acks=all",
            f"set it to {replicas - 1}",
        ),
    )


def _name(topic: Topic) -> Iterator[Problem]:
    """Problems with the topic's name."""
    if topic.topic_name in NAMES_OF_NO_TOPIC:
        yield Problem("spec.topicName", f"is {topic.topic_name!r}", "choose another name")
    if is_internal(topic.topic_name):
        message = f"is {topic.topic_name}, which belongs to the cluster itself"
        yield Problem("spec.topicName", message, "choose another name")


def _config(topic: Topic) -> Iterator[Problem]:
    """Problems with the configuration."""
    yield from given_topic_config(topic.spec.config).problems
    min_isr, replicas = _own_min_isr(topic), topic.spec.asked_replicas
    if min_isr is not None and replicas is not None and min_isr > replicas:
        yield Problem(
            MIN_ISR_FIELD,
            f"is {min_isr}, but {_replicas_field(topic)} is {replicas}",
            f"set it to at most {replicas}",
        )


def _own_min_isr(topic: Topic) -> int | None:
    """The topic's own `min.insync.replicas`; None if it sets none, or it is invalid."""
    name = MIN_INSYNC_REPLICAS.name
    if name not in topic.spec.config:
        return None
    # Only this key is parsed, because every plan calls this for every topic.
    text = given_topic_config({name: topic.spec.config[name]}).values.get(name)
    return None if text is None else int(text)


def _replicas_field(topic: Topic) -> str:
    """The name for messages of what says how many replicas the topic has."""
    is_set = topic.spec.replicas is not None
    return "spec.replicas" if is_set else "the number of replicas in spec.assignments"


def _strategy(growth: Growth | None) -> GrowthStrategy:
    return GrowthStrategy.APPEND if growth is None else growth.strategy


def _growth(topic: Topic) -> Iterator[Problem]:
    """Problems with the growth strategy."""
    growth = topic.spec.growth
    if growth is None or growth.strategy is GrowthStrategy.REPARTITION:
        return
    for name, value in (("partitioner", growth.partitioner), ("maxReplay", growth.max_replay)):
        if value is not None:
            message = "is set, but only Repartition uses it"
            yield Problem(f"spec.growth.{name}", message, "remove it")


def _deletion(topic: Topic) -> Iterator[Problem]:
    """Problems with the deletion policy."""
    spec = topic.spec
    if spec.trash_ttl is not None and spec.deletion_policy is not DeletionPolicy.TRASH:
        message = "is set, but only deletionPolicy Trash uses it"
        yield Problem("spec.trashTTL", message, "remove it, or set spec.deletionPolicy to Trash")


def _assignments(topic: Topic) -> Iterator[Problem]:
    """Problems with the placement of partitions."""
    spec = topic.spec
    last = max((assignment.partition for assignment in spec.assignments), default=0)
    if spec.partitions is not None and last >= spec.partitions:
        yield Problem(
            "spec.assignments",
            f"names partition {last}, but spec.partitions is {spec.partitions} and the first "
            "partition is 0",
            "remove it, or raise spec.partitions",
        )
    counts = sorted({len(assignment.replicas) for assignment in spec.assignments})
    if len(counts) > 1:
        yield Problem(
            "spec.assignments",
            f"has entries with {', '.join(map(str, counts))} replicas",
            "give each the same number of brokers",
        )
    elif counts and spec.replicas is not None and counts != [spec.replicas]:
        yield Problem(
            "spec.assignments",
            f"has entries with {counts[0]} replicas, but spec.replicas is {spec.replicas}",
            "give each as many brokers as spec.replicas says, or change spec.replicas",
        )


def _unbuilt(topic: Topic) -> Iterator[Problem]:
    """Problems with features that are not built yet."""
    spec = topic.spec
    features = (
        (
            Feature.REPARTITION,
            "spec.growth.strategy",
            _strategy(spec.growth) is GrowthStrategy.REPARTITION,
        ),
        (Feature.TRASH, "spec.deletionPolicy", spec.deletion_policy is DeletionPolicy.TRASH),
    )
    for feature, field, is_asked in features:
        if is_asked:
            yield from unless_built(feature, field)


def _namespace(topic: Topic, cluster: BrokerCluster) -> Iterator[Problem]:
    """A problem if the cluster does not accept Topics from the namespace."""
    namespace = topic.metadata.namespace
    if not cluster.allows(namespace):
        yield Problem(
            "spec.clusterRef",
            f"names {cluster.metadata.name}, which does not accept Topics from namespace "
            f"{namespace}",
            f"add {namespace} to that cluster's spec.allowedTopicNamespaces",
        )


def _replicas_in_cluster(topic: Topic, cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with more replicas than brokers."""
    values = given_broker_config(cluster.spec.config).values
    default = broker_value(values, DEFAULT_REPLICATION_FACTOR) or 1
    replicas, brokers = topic.spec.asked_replicas or default, cluster.spec.replicas
    has = f"but cluster {cluster.metadata.name} has {brokers} brokers"
    if replicas > brokers and topic.spec.replicas is None and topic.spec.assignments:
        message = f"has entries with {replicas} replicas, {has}"
        yield Problem("spec.assignments", message, f"name at most {brokers}, or add brokers")
    elif replicas > brokers:
        remedy = f"set it to at most {brokers}, or add brokers"
        yield Problem("spec.replicas", f"is {replicas}, {has}", remedy)
    min_isr = _own_min_isr(topic)
    if topic.spec.asked_replicas is None and min_isr is not None and min_isr > default:
        yield Problem(
            MIN_ISR_FIELD,
            f"is {min_isr}, but the cluster's {DEFAULT_REPLICATION_FACTOR.name} is {default}",
            "set spec.replicas",
        )
