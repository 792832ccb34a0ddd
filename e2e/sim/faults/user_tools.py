"""Kafka's tools change users: ACLs, passwords and quotas, which become User objects.

Each act is about a user of its own, so that it changes nothing that others expect.
"""

import random
from typing import Any, Final

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.scram import ITERATIONS, Mechanism, salted_password
from e2e.sim.faults.admins import as_client, send
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.users.accounts import TOPICS
from e2e.sim.wire import Wire

# Kafka's numbers.
TOPIC, LITERAL, ALLOW, DENY, ANY = 2, 3, 3, 2, 1
OPERATIONS: Final = (3, 4, 8)
"""READ, WRITE and DESCRIBE."""
SHA_512: Final = 2
QUOTA: Final = "producer_byte_rate"


def _name(chance: random.Random) -> str:
    return f"by-tool-{chance.getrandbits(24):06x}"


async def alter_acls(stage: Stage) -> None:
    """Create some ACLs of a new principal, list them, and delete them again."""

    async def work(wire: Wire, chance: random.Random) -> None:
        principal = f"User:{_name(chance)}"
        creations = [
            {
                "resource_type": TOPIC,
                "resource_name": topic,
                "resource_pattern_type": LITERAL,
                "principal": principal,
                "host": "*",
                "operation": chance.choice(OPERATIONS),
                "permission_type": chance.choice((ALLOW, DENY)),
            }
            for topic in TOPICS
        ]
        of_principal = {
            "resource_type_filter": ANY,
            "pattern_type_filter": ANY,
            "operation": ANY,
            "permission_type": ANY,
            "principal_filter": principal,
        }
        requests: tuple[tuple[ApiKey, dict[str, Any]], ...] = (
            (ApiKey.CREATE_ACLS, {"creations": creations}),
            (ApiKey.DESCRIBE_ACLS, of_principal),
            (ApiKey.DELETE_ACLS, {"filters": [of_principal]}),
        )
        for key, values in requests:
            await send(stage, wire, chance, key, values)

    await as_client(stage, work)


async def alter_passwords(stage: Stage) -> None:
    """Set the password of a new user, list it, and delete it again."""

    async def work(wire: Wire, chance: random.Random) -> None:
        name, salt = _name(chance), chance.randbytes(24)
        upsertion = {
            "name": name,
            "mechanism": SHA_512,
            "iterations": ITERATIONS,
            "salt": salt,
            "salted_password": salted_password(Mechanism.SCRAM_SHA_512, name, salt, ITERATIONS),
        }
        deletion = {"name": name, "mechanism": SHA_512}
        requests: tuple[tuple[ApiKey, dict[str, Any]], ...] = (
            (
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
                {"deletions": [], "upsertions": [upsertion]},
            ),
            (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": [{"name": name}]}),
            (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": [deletion], "upsertions": []}),
        )
        for key, values in requests:
            await send(stage, wire, chance, key, values)

    await as_client(stage, work)


async def alter_quotas(stage: Stage) -> None:
    """Set a quota of a new user, list it, and remove it again."""

    async def work(wire: Wire, chance: random.Random) -> None:
        name = _name(chance)
        entity = [{"entity_type": "user", "entity_name": name}]
        component = {"entity_type": "user", "match_type": 0, "match": name}

        def altered(*, remove: bool) -> dict[str, Any]:
            operation = {"key": QUOTA, "value": 1000.0, "remove": remove}
            return {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": False}

        requests: tuple[tuple[ApiKey, dict[str, Any]], ...] = (
            (ApiKey.ALTER_CLIENT_QUOTAS, altered(remove=False)),
            (ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [component], "strict": False}),
            (ApiKey.ALTER_CLIENT_QUOTAS, altered(remove=True)),
        )
        for key, values in requests:
            await send(stage, wire, chance, key, values)

    await as_client(stage, work)


ACTS: Final[dict[str, Act]] = {
    "ACLs by a tool": alter_acls,
    "password by a tool": alter_passwords,
    "quota by a tool": alter_quotas,
}
