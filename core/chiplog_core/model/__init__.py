"""The objects of the API group chiplog.dev, as values, and what may be written to them.

A module per kind, or two where spec and status have little to do with each other. A field's
declaration holds its type, its bounds and what it means; the manifests' readers and writers and
the resource definitions all follow from it. What these objects mean to each other is
`chiplog_core.validate`. `actions` holds the writes that a decision may ask for, `verdicts` the
conditions that it may publish.
"""
