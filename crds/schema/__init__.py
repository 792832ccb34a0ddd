"""The source of the CustomResourceDefinitions: a module per kind, and what they are made with.

The fields themselves, with their bounds and descriptions, are declared once in
`chiplog_core.model`. What is here is what only the API server needs: validation rules across
fields (CEL), the columns of `kubectl get`, subresources.
"""
