"""The objects of the API group chiplog.dev, as values, and what may be written to them.

There is one module for each kind, or two if its status is large. The declaration of a field has its
type, its limits and its description; manifests are parsed and written by it, and the
CustomResourceDefinitions are generated from it. Rules that span several objects are in
`chiplog_core.validate`. `actions` has the writes that the planner may request, `verdicts` makes the
conditions that it may publish.
"""
