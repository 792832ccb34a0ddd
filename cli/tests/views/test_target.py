"""Which cluster is meant."""

from pathlib import Path

import pytest

from chiplog_cli.target import ByAddress, ByName, addresses, kubeconfigs_of, target


def of(environment: dict[str, str] | None = None, /, **given: str) -> ByAddress | ByName:
    unused: dict[str, str | None] = dict.fromkeys(
        (
            *("bootstrap_server", "cluster", "namespace", "kubeconfig", "context", "listener"),
            *("user", "command_config"),
        )
    )
    return target({**unused, **given}, environment or {})


def test_by_address() -> None:
    by_option = ByAddress(bootstrap_servers="a:1", given_by="--bootstrap-server")
    by_variable = ByAddress(bootstrap_servers="b:2", given_by="CHIPLOG_BOOTSTRAP")
    assert of(bootstrap_server="a:1") == by_option
    assert of({"CHIPLOG_BOOTSTRAP": "b:2"}) == by_variable
    assert of({"CHIPLOG_BOOTSTRAP": "b:2"}, bootstrap_server="a:1") == by_option


def test_by_name_even_where_the_environment_has_an_address() -> None:
    assert of({"CHIPLOG_BOOTSTRAP": "b:2"}, cluster="demo", namespace="shop") == ByName(
        name="demo", namespace="shop", kubeconfig=None, context=None, listener=None
    )
    given = {"kubeconfig": "/k", "context": "c", "listener": "plain", "user": "billing"}
    assert of(cluster="demo", **given) == ByName(
        name="demo",
        namespace=None,
        kubeconfig=Path("/k"),
        context="c",
        listener="plain",
        user="billing",
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no cluster is given: use --bootstrap-server HOST:PORT"),
        ({"bootstrap_server": "a:1", "cluster": "demo"}, "cannot be used together"),
        ({"bootstrap_server": "a:1", "namespace": "x"}, "--namespace needs --cluster"),
        ({"listener": "plain"}, "--listener needs --cluster"),
        ({"kubeconfig": "/k"}, "--kubeconfig needs --cluster"),
        ({"context": "c"}, "--context needs --cluster"),
        ({"user": "billing"}, "--user needs --cluster"),
        ({"cluster": "demo", "user": "a", "command_config": "f"}, "--user and --config cannot be"),
    ],
)
def test_what_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        of(**given)


def test_addresses() -> None:
    assert addresses("a:1, [::1]:9092") == [("a", 1), ("::1", 9092)]


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:x", "a:0", "a:65536", "a:1,,b:2"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="write HOST:PORT"):
        addresses(text)


def test_kubeconfigs_are_those_of_kubectl(tmp_path: Path) -> None:
    """Where KUBECONFIG names files, the one at home is not read."""
    one, other = tmp_path / "one", tmp_path / "other"
    assert kubeconfigs_of({}, tmp_path) == ()
    at_home = tmp_path / ".kube" / "config"
    at_home.parent.mkdir()
    at_home.touch()
    assert kubeconfigs_of({}, tmp_path) == (at_home,)
    assert kubeconfigs_of({"KUBECONFIG": f"{one}::{other}"}, tmp_path) == (one, other)
