"""One CustomResourceDefinition, made from a kind's model, its columns and its validation rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chiplog_core.manifest.shapes import ObjectShape, object_shape
from chiplog_core.model.resource import Resource, UsersResource
from chiplog_core.naming import api
from chiplog_core.validate.unbuilt import notices
from crds.schema.openapi import PROGRAMS, USERS, Schema, schema_of
from crds.schema.rules import Rule

ROOT = ""

CLUSTER_REF = "cluster_ref"
CLUSTER_REF_PATHS = (".spec.clusterRef.name", ".spec.clusterRef.namespace")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    type: str
    path: str
    description: str
    wide: bool = False
    """Shown only with `-o wide`."""

    def to_manifest(self) -> dict[str, Any]:
        """The column in a CustomResourceDefinition. kubectl hides priority 1 without `-o wide`."""
        manifest = {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.path,
            "description": self.description,
        }
        return {**manifest, "priority": 1} if self.wide else manifest


READY = Column(
    "Ready",
    "string",
    '.status.conditions[?(@.type=="Ready")].status',
    "Whether the object matches its spec.",
)
REASON = Column(
    "Reason",
    "string",
    '.status.conditions[?(@.type=="Ready")].reason',
    "Reason of the Ready condition.",
)
MESSAGE = Column(
    "Message",
    "string",
    '.status.conditions[?(@.type=="Ready")].message',
    "Message of the Ready condition.",
    wide=True,
)
AGE = Column("Age", "date", ".metadata.creationTimestamp", "Time since it was created.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A kind as the API server knows it."""

    model: type[Resource]
    columns: Sequence[Column]
    rules: Mapping[str, Sequence[Rule]] = field(default_factory=dict)
    """Validation rules by the path of the field that they are attached to: `spec`,
    `spec.listeners[]` for each item of a list, `ROOT` for the object."""

    scale: Mapping[str, str] = field(default_factory=dict)
    """Paths for `kubectl scale`; empty for kinds that cannot be scaled."""

    @property
    def file_name(self) -> str:
        return f"{self.model.KIND.definition_name}.yaml"

    def to_manifest(self) -> dict[str, Any]:
        """The CustomResourceDefinition."""
        kind = self.model.KIND
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": kind.definition_name},
            "spec": {
                "group": api.GROUP,
                "names": {
                    "kind": kind.kind,
                    "listKind": f"{kind.kind}List",
                    "plural": kind.plural,
                    "singular": kind.singular,
                    "shortNames": [kind.short_name],
                    "categories": [api.CATEGORY],
                },
                "scope": "Namespaced",
                "versions": [self._version()],
            },
        }

    def _version(self) -> dict[str, Any]:
        """The only version of the kind, with columns, schema and subresources."""
        version: dict[str, Any] = {
            "name": api.VERSION,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [column.to_manifest() for column in self.columns],
            **self._selectable(),
            "schema": {"openAPIV3Schema": self.schema()},
        }
        subresources: dict[str, Any] = {}
        if "status" in version["schema"]["openAPIV3Schema"]["properties"]:
            subresources["status"] = {}
        if self.scale:
            subresources["scale"] = dict(self.scale)
        return {**version, "subresources": subresources} if subresources else version

    def _selectable(self) -> dict[str, Any]:
        """The fields by which `kubectl get --field-selector` can select objects: the cluster, if
        the kind has a `clusterRef`. Kubernetes before 1.31 ignores them."""
        if not any(field.attribute == CLUSTER_REF for field in self._spec().fields):
            return {}
        return {"selectableFields": [{"jsonPath": path} for path in CLUSTER_REF_PATHS]}

    def _spec(self) -> ObjectShape:
        """The declared shape of the spec."""
        (spec,) = (part.shape for part in object_shape(self.model).fields if part.name == "spec")
        assert isinstance(spec, ObjectShape)
        return spec

    def schema(self) -> Schema:
        """The OpenAPI schema of an object of this kind."""
        shape = object_shape(self.model)
        root: Schema = {
            "type": "object",
            "description": shape.description,
            "required": ["spec"],
            "properties": {
                # kubectl and the API server describe these three themselves.
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                **self._parts(shape),
            },
        }
        for path, notice in notices(self.model.KIND):
            node = _node(root, path)
            node["description"] = f"{node['description']} {notice}"
        for path, rules in self.rules.items():
            node = _node(root, path)
            node.setdefault("x-kubernetes-validations", []).extend(
                rule.to_manifest() for rule in rules
            )
        return root

    def _parts(self, shape: ObjectShape) -> dict[str, Schema]:
        """The schemas of spec and status. Only the specs of some kinds are written by users; all
        else is written by programs, which need no defaults and no explained patterns."""
        for_users = issubclass(self.model, UsersResource)
        return {
            part.name: schema_of(
                part.shape, USERS if for_users and part.name == "spec" else PROGRAMS
            )
            for part in shape.fields
            if part.name != "metadata"
        }


def _node(root: Schema, path: str) -> Schema:
    """The schema of the field at a path, like `spec.listeners[].port`; `[]` means the items of a
    list. An empty path is the object itself."""
    node = root
    for name in path.split(".") if path else []:
        node = node["properties"][name.removesuffix("[]")]
        if name.endswith("[]"):
            node = node["items"]
    return node
