"""Reading and writing Kubernetes manifests from one description of each field.

A field is described once, where its dataclass declares it: type, bounds and what it means. From
that description come the reader (`reading`), the writer (`writing`) and the schema in the
CustomResourceDefinition (the `crds/` directory), so the three cannot disagree.
"""
