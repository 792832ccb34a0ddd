"""Reading and writing Kubernetes manifests from one description of each field.

A field is described once, where its dataclass declares it: type, bounds and meaning. The reader
(`reading`), the writer (`writing`) and the schema in the CustomResourceDefinition (the `crds/`
directory) are derived from that description, so the three cannot disagree.
"""
