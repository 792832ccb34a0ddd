"""The BrokerCluster definition."""

from collections.abc import Mapping, Sequence

from chiplog_core.config.broker_keys import DEFAULT_REPLICATION_FACTOR
from chiplog_core.config.topic_keys import MIN_INSYNC_REPLICAS
from chiplog_core.model.auto_rebalance import AutoRebalanceMode
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import AuthenticationType
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME, ListenerType
from chiplog_core.model.listener_authentication import WITH_TOKENS
from chiplog_core.model.storage import MIN_VOLUME_SIZE
from chiplog_core.naming import ports
from chiplog_core.naming.names import (
    CLUSTER_NAME_MEANING,
    CLUSTER_NAME_PATTERN,
    MAX_CLUSTER_NAME_LENGTH,
)
from chiplog_core.validate.listener_authentication import API_SERVERS_AUDIENCE
from chiplog_core.validate.pod_template import (
    ALLOWED,
    KEY_REMEDY,
    PRIORITY_REMEDY,
    RESERVED_PATTERN,
    SYSTEM_PRIORITY,
)
from crds.schema.definition import AGE, MESSAGE, READY, REASON, ROOT, Column, Definition
from crds.schema.rules import Rule, RuleReason, optional, unchanged


def _at_most_brokers(key: str) -> Rule:
    """The rule that a configuration key is not above the number of brokers."""
    # CEL writes the dots in a field's name like this.
    path = f"self.config.{key.replace('.', '__dot__')}"
    return Rule(
        optional(path, f"int({path}) <= self.replicas"),
        f"{key} is above spec.replicas, the number of brokers: lower it, or raise spec.replicas",
        field=".config",
    )


def _unreserved(name: str) -> Rule:
    """The rule that labels or annotations of pods, as `name` says, have no reserved keys."""
    return Rule(
        f"self.all(key, key in {list(ALLOWED)} || !key.matches('{RESERVED_PATTERN}'))",
        f"spec.template.{name} has a key that is reserved: {KEY_REMEDY}",
        reason=RuleReason.FORBIDDEN,
    )


_RENEWED_IN_TIME = Rule(
    "self.renewalDays < self.validityDays",
    "renewalDays must be less than validityDays: lower it, or raise validityDays",
    field=".renewalDays",
)

_SIZE = "quantity(string(self.spec.storage.size))"
_OLD_SIZE = "quantity(string(oldSelf.spec.storage.size))"
_IS_OAUTH = f"self.type == '{AuthenticationType.OAUTH}'"
_HAS_TLS = "(has(self.tls) && self.tls)"


def _is_of(*types: ListenerType) -> str:
    """The CEL expression that a listener has one of these types."""
    return f"self.type in {[str(one) for one in types]}"


_IS_ROUTED = _is_of(ListenerType.INGRESS, ListenerType.TLS_ROUTE)
_OWN_SERVICES = _is_of(ListenerType.LOAD_BALANCER, ListenerType.INGRESS, ListenerType.TLS_ROUTE)
_IS_OUTSIDE = f"self.type != '{ListenerType.INTERNAL}'"
_ONLY_OF: Mapping[str, Sequence[ListenerType]] = {
    "class": (ListenerType.LOAD_BALANCER, ListenerType.INGRESS),
    "hostTemplate": (ListenerType.INGRESS, ListenerType.TLS_ROUTE),
    "bootstrap.host": (ListenerType.INGRESS, ListenerType.TLS_ROUTE),
    "parentRefs": (ListenerType.TLS_ROUTE,),
    "loadBalancerSourceRanges": (ListenerType.LOAD_BALANCER,),
    "externalTrafficPolicy": (ListenerType.LOAD_BALANCER,),
    "createBootstrapService": (ListenerType.LOAD_BALANCER,),
}
"""Fields of a listener's configuration that only some types have."""
_REACHED = "quantity(string(self.status.volumeSize))"

BROKER_CLUSTER = Definition(
    model=BrokerCluster,
    columns=(
        Column("Brokers", "integer", ".spec.replicas", "Desired number of brokers."),
        Column(
            "Ready brokers",
            "integer",
            ".status.readyReplicas",
            "Number of ready brokers whose replicas are all in sync.",
        ),
        Column("Topics", "integer", ".status.topics", "Number of topics."),
        Column("Partitions", "integer", ".status.partitions", "Number of partitions."),
        Column("Offline", "integer", ".status.offlinePartitions", "Partitions without a leader."),
        Column(
            "Under replicated",
            "integer",
            ".status.underReplicatedPartitions",
            "Partitions with fewer in-sync replicas than replicas.",
        ),
        READY,
        REASON,
        AGE,
        Column(
            "Bootstrap",
            "string",
            ".status.listeners[*].bootstrapServers",
            "Bootstrap address for clients.",
            wide=True,
        ),
        Column(
            "Cluster id", "string", ".status.clusterId", "Kafka's id of the cluster.", wide=True
        ),
        MESSAGE,
    ),
    scale={
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    },
    rules={
        ROOT: (
            Rule(
                f"size(self.metadata.name) <= {MAX_CLUSTER_NAME_LENGTH}",
                "metadata.name is too long for the names of Services that contain it: shorten it "
                "to "
                f"{MAX_CLUSTER_NAME_LENGTH} characters",
            ),
            Rule(
                f"self.metadata.name.matches('^{CLUSTER_NAME_PATTERN}$')",
                f"metadata.name must be {CLUSTER_NAME_MEANING}",
            ),
            Rule(
                # A size that no volume has reached can be taken back.
                f"{_SIZE}.compareTo({_OLD_SIZE}) >= 0 || (has(self.status) && "
                f"has(self.status.volumeSize) && {_SIZE}.compareTo({_REACHED}) >= 0)",
                "spec.storage.size cannot shrink: set it back to its former value",
                message_expression="'spec.storage.size cannot shrink from %s to %s: set it to %s "
                "or more'.format([string(oldSelf.spec.storage.size), "
                "string(self.spec.storage.size), has(self.status) && has(self.status.volumeSize) "
                f"&& {_REACHED}.isLessThan({_OLD_SIZE}) ? string(self.status.volumeSize) : "
                "string(oldSelf.spec.storage.size)])",
                field=".spec.storage.size",
            ),
        ),
        "spec": (
            _at_most_brokers(DEFAULT_REPLICATION_FACTOR.name),
            _at_most_brokers(MIN_INSYNC_REPLICAS.name),
            Rule(
                "!has(self.listeners) || self.listeners.all(l, !has(l.nodePortBase) || "
                f"l.nodePortBase + self.replicas <= {ports.MAX_NODE_PORT})",
                "nodePortBase leaves too few node ports up to "
                f"{ports.MAX_NODE_PORT} for the bootstrap address and every broker: lower it",
                field=".listeners",
            ),
            Rule(
                optional(
                    "self.topicPolicies.minReplicas",
                    "self.topicPolicies.minReplicas <= self.replicas",
                ),
                "topicPolicies.minReplicas is above spec.replicas, the number of brokers: lower "
                "it, or raise spec.replicas",
                field=".topicPolicies.minReplicas",
            ),
            Rule(
                optional(
                    "self.rollPolicy.maxParallelPerRack",
                    "self.rollPolicy.maxParallelPerRack == 1 || has(self.rack)",
                ),
                "rollPolicy.maxParallelPerRack is above 1, but the brokers' racks are not known: "
                "set spec.rack, or set it to 1",
                field=".rollPolicy.maxParallelPerRack",
            ),
        ),
        "spec.rollPolicy.timeZone": (
            Rule(
                # An unknown zone is an error of the expression, and so refused as well.
                "timestamp('2000-01-01T00:00:00Z').getHours(self) >= 0",
                "rollPolicy.timeZone must be a name of the IANA time zone database, like "
                "Europe/Berlin",
            ),
        ),
        "spec.topicPolicies.namePattern": (
            Rule(
                "'any'.matches(self) in [true, false]",
                "must be a regular expression, like payments\\.[a-z-]+",
            ),
        ),
        "spec.topicPolicies.maxRetentionBytes": (
            Rule(
                "quantity(string(self)).isInteger() && "
                "quantity(string(self)).isGreaterThan(quantity('0'))",
                "topicPolicies.maxRetentionBytes must be a number of bytes, like 50Gi",
            ),
        ),
        "spec.template.labels": (_unreserved("labels"),),
        "spec.template.annotations": (_unreserved("annotations"),),
        "spec.template.priorityClassName": (
            Rule(
                f"!self.startsWith('{SYSTEM_PRIORITY}')",
                "spec.template.priorityClassName is one of Kubernetes' own classes: "
                f"{PRIORITY_REMEDY}",
                reason=RuleReason.FORBIDDEN,
            ),
        ),
        "spec.autoRebalance[].timeZone": (
            Rule(
                # An unknown zone is an error of the expression, and so refused as well.
                "timestamp('2000-01-01T00:00:00Z').getHours(self) >= 0",
                "timeZone must be a name of the IANA time zone database, like Europe/Berlin",
            ),
        ),
        "spec.autoRebalance[]": (
            Rule(
                f"!has(self.unevenFor) || self.mode == '{AutoRebalanceMode.IMBALANCE}'",
                "unevenFor is only for mode imbalance: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".unevenFor",
            ),
            Rule(
                "!has(self.windows) || size(self.windows) == 0 || "
                f"self.mode != '{AutoRebalanceMode.REMOVE_BROKERS}'",
                "windows are not for mode remove-brokers, because removed brokers are emptied at "
                "any time: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".windows",
            ),
            Rule(
                f"!has(self.threshold) || self.mode == '{AutoRebalanceMode.IMBALANCE}'",
                "threshold is only for mode imbalance: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".threshold",
            ),
            Rule(
                f"!has(self.template) || self.mode != '{AutoRebalanceMode.REMOVE_BROKERS}'",
                "template is not for mode remove-brokers, because removed brokers are emptied "
                "without a Rebalance: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".template",
            ),
        ),
        "spec.storage": (
            Rule(
                f"quantity(string(self.size)).compareTo(quantity('{MIN_VOLUME_SIZE}')) >= 0",
                f"spec.storage.size is below {MIN_VOLUME_SIZE}: write a unit, like 100Gi",
                field=".size",
            ),
            Rule(
                unchanged("self.class"),
                "spec.storage.class cannot be changed: set it back to its former value",
                reason=RuleReason.FORBIDDEN,
                field=".class",
            ),
        ),
        "spec.listeners": (
            Rule(
                "self.all(l, self.exists_one(other, other.port == l.port))",
                "two of spec.listeners have the same port: give each its own",
            ),
        ),
        "spec.listeners[]": (
            Rule(
                f"self.name != '{INTERNAL_LISTENER_NAME}'",
                "the name internal is reserved for the brokers' own listener: choose another, "
                "like plain",
                reason=RuleReason.FORBIDDEN,
                field=".name",
            ),
            Rule(
                f"!(self.port in {sorted(ports.RESERVED)})",
                f"ports {', '.join(map(str, sorted(ports.RESERVED)))} are used by the brokers "
                f"themselves: choose another, like {ports.PLAIN}",
                reason=RuleReason.FORBIDDEN,
                field=".port",
            ),
            Rule(
                f"!has(self.advertisedHost) || self.type != '{ListenerType.INTERNAL}'",
                "advertisedHost is not for listeners of type internal, which advertise the "
                "brokers' pods: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".advertisedHost",
            ),
            Rule(
                f"!has(self.advertisedHost) || !({_OWN_SERVICES})",
                "advertisedHost is not for listeners of type loadbalancer, ingress and tlsroute, "
                "whose brokers need a host each: set configuration.advertisedHostTemplate instead",
                reason=RuleReason.FORBIDDEN,
                field=".advertisedHost",
            ),
            Rule(
                f"!has(self.advertisedPort) || {_OWN_SERVICES}",
                "advertisedPort is only for listeners of type loadbalancer, ingress and tlsroute: "
                "remove it",
                reason=RuleReason.FORBIDDEN,
                field=".advertisedPort",
            ),
            Rule(
                f"!({_IS_ROUTED}) || {_HAS_TLS}",
                "listeners of type ingress and tlsroute need TLS: set tls to true",
                field=".tls",
            ),
            Rule(
                f"!({_IS_ROUTED}) || (has(self.configuration) && "
                "has(self.configuration.hostTemplate) && has(self.configuration.bootstrap) && "
                "has(self.configuration.bootstrap.host))",
                "listeners of type ingress and tlsroute need configuration.bootstrap.host and "
                "configuration.hostTemplate: set both to DNS names that lead to the proxy",
                field=".configuration",
            ),
            Rule(
                f"self.type != '{ListenerType.TLS_ROUTE}' || (has(self.configuration) && "
                "has(self.configuration.parentRefs) && size(self.configuration.parentRefs) > 0)",
                "listeners of type tlsroute need configuration.parentRefs: name the Gateway",
                field=".configuration",
            ),
            *(
                Rule(
                    optional(f"self.configuration.{name}", _is_of(*types)),
                    f"configuration.{name} is only for listeners of type {' and '.join(types)}: "
                    "remove it",
                    reason=RuleReason.FORBIDDEN,
                    field=".configuration",
                )
                for name, types in _ONLY_OF.items()
            ),
            Rule(
                optional("self.configuration.advertisedHostTemplate", _IS_OUTSIDE),
                "configuration.advertisedHostTemplate is not for listeners of type internal, which "
                "advertise the brokers' pods: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".configuration",
            ),
            Rule(
                optional("self.configuration.bootstrap.alternativeNames", _HAS_TLS),
                "alternativeNames is only for listeners with TLS: remove it, or set tls to true",
                field=".configuration",
            ),
            Rule(
                f"!has(self.nodePortBase) || self.type == '{ListenerType.NODE_PORT}'",
                "nodePortBase is only for listeners of type nodeport: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".nodePortBase",
            ),
            Rule(
                "!has(self.authentication) || "
                f"self.authentication.type == '{AuthenticationType.SCRAM_SHA_512}' || {_HAS_TLS}",
                "authentication with type tls, oauth or kubernetes-token needs TLS: set tls to "
                "true",
                field=".authentication",
            ),
            Rule(
                optional("self.configuration.brokerCertChainAndKey", _HAS_TLS),
                "brokerCertChainAndKey is only for listeners with TLS: remove it, or set tls to "
                "true",
                field=".configuration.brokerCertChainAndKey",
            ),
        ),
        "spec.listeners[].authentication": (
            Rule(
                f"has(self.audience) == (self.type in {list(map(str, WITH_TOKENS))})",
                "audience is required for the types oauth and kubernetes-token, and only for "
                "them: set it to what tokens are for, or remove it",
                reason=RuleReason.REQUIRED,
                field=".audience",
            ),
            Rule(
                f"has(self.validIssuerUri) == ({_IS_OAUTH}) && "
                f"has(self.jwksEndpointUri) == ({_IS_OAUTH})",
                "validIssuerUri and jwksEndpointUri are required for type oauth, and only for it: "
                "set both, or remove them",
                reason=RuleReason.REQUIRED,
                field=".validIssuerUri",
            ),
            Rule(
                f"{_IS_OAUTH} || !(has(self.userNameClaim) || "
                "(has(self.tlsTrustedCertificates) && size(self.tlsTrustedCertificates) > 0))",
                "userNameClaim and tlsTrustedCertificates are only for type oauth: remove them",
                reason=RuleReason.FORBIDDEN,
            ),
            Rule(
                f"self.type != '{AuthenticationType.KUBERNETES_TOKEN}' || !has(self.audience) || "
                f"!self.audience.startsWith('{API_SERVERS_AUDIENCE}')",
                "audience is the API server's own, so every pod would have such a token: choose "
                "another one, like the name of the cluster with that of its namespace",
                field=".audience",
            ),
        ),
        "spec.clusterCa": (_RENEWED_IN_TIME,),
        "spec.clientsCa": (_RENEWED_IN_TIME,),
        "spec.listeners[].networkPolicyPeers[]": (
            Rule(
                "has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
                "a peer in networkPolicyPeers selects nobody: set podSelector, namespaceSelector "
                "or ipBlock; {} as a selector means all",
            ),
            Rule(
                "!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector))",
                "ipBlock is set together with a selector, but a peer is either an address block "
                "or selected by labels: make it a peer of its own",
                field=".ipBlock",
            ),
        ),
    },
)
