"""Every API under every permission, allowed and denied: the codes of Apache Kafka 4.3.1."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from chiplog_wire.protocol.apis import APIS
from e2e.clients.subject import subject
from e2e.kafka.tools import run_tool
from e2e.security import recording
from e2e.security.cases import STRANGER, Context, cases
from e2e.security.matrix import SETTINGS, Matrix, compact, differences, expanded, matrix
from e2e.security.shapes import codes

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

DENIED = frozenset({29, 30, 31, 53})
"""The codes of denied topics, groups, clusters and transactional ids."""
NOT_HERE = {
    "DescribeConfigs v4 of readers": "groups have no configuration",
    "Fetch v12 as a follower": "only brokers fetch as followers, whatever the ACLs say",
}
"""Requests that Chiplog answers otherwise where they are allowed, and why."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    directory = tmp_path_factory.mktemp("broker")
    with subject()(directory, settings=SETTINGS) as broker:
        return expanded(json.loads(json.dumps(compact(matrix(broker)))))


def test_every_api_is_asked() -> None:
    nothing = UUID(int=0)
    asked = {case.key for case in cases(Context(nothing, "", nothing, STRANGER, STRANGER))}
    of_logins = {key for key in APIS if APIS[key].name.startswith("Sasl")}
    assert asked == APIS.keys() - of_logins


def test_the_codes_are_kafkas(found: Matrix) -> None:
    kafkas = recording.read()
    assert sum(map(len, kafkas.values())) > 6_000
    others = differences(found, kafkas)
    for request in NOT_HERE:
        for client, (_, theirs) in others.pop(request, {}).items():
            assert not DENIED & set(codes(theirs)), (request, client)
    assert not others


def test_the_recording_has_both_answers_of_each_request() -> None:
    """A request that is answered alike whatever is allowed would show nothing."""
    kafkas = recording.read()
    same = {request for request, answers in kafkas.items() if len(compact({"": answers})[""]) == 1}
    assert same == {"ApiVersions v4"}


def test_kafkas_tool_makes_and_lists_acls(tmp_path: Path) -> None:
    settings = {**SETTINGS, "super.users": "User:ANONYMOUS"}
    with subject()(tmp_path, settings=settings) as broker:
        server = ("--bootstrap-server", broker.bootstrap)
        run_tool(
            "kafka-acls.sh",
            *server,
            *("--add", "--allow-principal", "User:alice", "--consumer", "--group", "readers"),
            *("--topic", "team.", "--resource-pattern-type", "prefixed"),
        )
        listed = run_tool("kafka-acls.sh", *server, "--list")
        assert "resourceType=TOPIC, name=team., patternType=PREFIXED" in listed
        assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
        run_tool("kafka-acls.sh", *server, "--remove", "--force", "--topic", "*")
        run_tool(
            "kafka-acls.sh",
            *server,
            *("--remove", "--force", "--topic", "team.", "--resource-pattern-type", "prefixed"),
        )
        listed = run_tool("kafka-acls.sh", *server, "--list")
        assert "TOPIC" not in listed
        assert "name=readers" in listed
