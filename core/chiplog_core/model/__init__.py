"""The objects of the API group chiplog.dev, as values.

A module per kind, or two where spec and status have little to do with each other. A field's
declaration holds its type, its bounds and what it means; the manifests' readers and writers and
the resource definitions all follow from it. What these objects mean to each other is
`chiplog_core.validate`.
"""
