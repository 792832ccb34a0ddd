"""The User definition."""

from chiplog_core.model.access_list import AclResourceType
from chiplog_core.model.principals import MAX_COMMON_NAME_LENGTH
from chiplog_core.model.user import AclRulePatternType, User, UserAuthenticationType
from crds.schema.definition import AGE, MESSAGE, READY, REASON, ROOT, Column, Definition
from crds.schema.rules import Rule, RuleReason, optional

_HAS_CERTIFICATE = (
    f"self.spec.authentication.type in ['{UserAuthenticationType.TLS}', "
    f"'{UserAuthenticationType.TLS_EXTERNAL}']"
)

USER = Definition(
    model=User,
    columns=(
        Column("Cluster", "string", ".spec.clusterRef.name", "The BrokerCluster whose user it is."),
        Column(
            "Authentication", "string", ".spec.authentication.type", "How the user authenticates."
        ),
        Column("Authorization", "string", ".spec.authorization.type", "How it is authorized."),
        READY,
        REASON,
        AGE,
        Column(
            "Username",
            "string",
            ".status.username",
            "The name by which brokers know the user.",
            wide=True,
        ),
        Column("Secret", "string", ".status.secret", "The Secret with its credentials.", wide=True),
        MESSAGE,
    ),
    rules={
        ROOT: (
            Rule(
                optional(
                    "self.spec.authentication",
                    f"!({_HAS_CERTIFICATE}) || "
                    "has(self.spec.username) || "
                    f"size(self.metadata.name) <= {MAX_COMMON_NAME_LENGTH}",
                ),
                "metadata.name is too long for the subject of a certificate: shorten it to "
                f"{MAX_COMMON_NAME_LENGTH} characters",
            ),
        ),
        "spec": (
            Rule(
                "self.clusterRef == oldSelf.clusterRef",
                "spec.clusterRef cannot be changed: delete this User and create one for the "
                "other cluster",
                reason=RuleReason.FORBIDDEN,
                field=".clusterRef",
            ),
            Rule(
                "!has(self.username) || !has(self.authentication) || "
                f"self.authentication.type != '{UserAuthenticationType.TLS}'",
                "username is not for type tls: remove it, or use tls-external",
                reason=RuleReason.FORBIDDEN,
                field=".username",
            ),
        ),
        "spec.authentication": (
            Rule(
                f"!has(self.password) || self.type == '{UserAuthenticationType.SCRAM_SHA_512}'",
                "password is only for type scram-sha-512: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".password",
            ),
            Rule(
                "!has(self.verifierKey) || (!has(self.password) && "
                f"self.type == '{UserAuthenticationType.SCRAM_SHA_512}')",
                "verifierKey is only for type scram-sha-512 without password: remove it",
                reason=RuleReason.FORBIDDEN,
                field=".verifierKey",
            ),
        ),
        "spec.authorization.acls[]": (
            Rule(
                "(has(self.operations) && size(self.operations) > 0) || has(self.operation)",
                "the rule has no operations: list at least one, like Read",
                reason=RuleReason.REQUIRED,
                field=".operations",
            ),
        ),
        "spec.authorization.acls[].resource": (
            Rule(
                f"has(self.name) || self.type == '{AclResourceType.CLUSTER}'",
                "resource.name is missing: set it, or * for all",
                reason=RuleReason.REQUIRED,
                field=".name",
            ),
            Rule(
                f"self.type != '{AclResourceType.CLUSTER}' || "
                "((!has(self.name) || self.name == 'kafka-cluster') && "
                f"(!has(self.patternType) || self.patternType != '{AclRulePatternType.PREFIX}'))",
                "the cluster is one resource, without a name or patternType prefix: remove them",
                reason=RuleReason.FORBIDDEN,
                field=".name",
            ),
        ),
    },
)
