"""The cluster's addresses and files: nothing outside the test range, nothing shared."""

import ipaddress
from pathlib import Path

from e2e.cluster import layout, node, preflight
from e2e.cluster.content import content_key

BENCHMARK_RANGE = ipaddress.ip_network("198.18.0.0/15")


def test_every_listening_address_is_loopback_or_in_the_benchmark_range() -> None:
    for port in layout.PORTS:
        address = ipaddress.ip_address(port.ip)
        assert address.is_loopback or address in BENCHMARK_RANGE, port
    assert len({(port.ip, port.number) for port in layout.PORTS}) == len(layout.PORTS)


def test_nodes_share_no_name_network_or_directory() -> None:
    for of in (
        lambda one: one.zone,
        lambda one: one.ip,
        lambda one: one.pod_cidr,
        lambda one: one.bridge,
        lambda one: one.cgroup,
        layout.node_state,
        layout.node_run,
        lambda one: node.cni(one)["name"],
    ):
        assert len({of(one) for one in layout.NODES}) == len(layout.NODES)
    for one in layout.NODES:
        assert len(one.bridge) <= 15
        network, whole = ipaddress.IPv4Network(one.pod_cidr), ipaddress.IPv4Network(layout.POD_CIDR)
        assert network.subnet_of(whole)


def test_nodes_together_leave_memory_to_the_machine() -> None:
    reserved = [node.kubelet_config(one)["systemReserved"] for one in layout.NODES]
    offered = [node.memory_bytes() - int(one["memory"]) for one in reserved]  # type: ignore[index]
    assert sum(offered) <= node.memory_bytes()


def test_listening_sees_ipv6_wildcards_as_taking_ipv4_ports() -> None:
    assert all(ipaddress.ip_address(ip) for ip, _, _ in preflight.listening())


def test_content_key_follows_content_and_not_place(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "source", tmp_path / "b" / "source"
    for directory in (first, second):
        directory.mkdir(parents=True)
        (directory / "main.go").write_text("package main")
    assert content_key([first]) == content_key([second])
    assert content_key([first]) != content_key([first], "flags")
    (second / "main.go").write_text("package other")
    assert content_key([first]) != content_key([second])
