"""The AccessList definition. Only the operator writes these objects, from `User` objects."""

from chiplog_core.model.access_list import AccessList
from crds.schema.definition import AGE, Column, Definition

ACCESS_LIST = Definition(
    model=AccessList,
    columns=(
        Column(
            "Credentials",
            "string",
            ".spec.credentialsDigest",
            "SHA-256 of the Secret with the verifiers of passwords.",
            wide=True,
        ),
        AGE,
    ),
)
