"""Creates a broker of a cluster on Kubernetes from the arguments of its process."""

import argparse
import logging
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from chiplog_broker.broker import Broker
from chiplog_broker.config_file import member_config, member_listeners
from chiplog_broker.directory_ports import directory_ports
from chiplog_broker.errors import CannotStart
from chiplog_broker.metadata.kubernetes.api_server_keys import ApiServerKeys
from chiplog_broker.metadata.kubernetes.membership import KubernetesMembership, MemberPorts
from chiplog_broker.metadata.kubernetes.process import Process, new_incarnation
from chiplog_broker.metadata.listeners import internal_listener
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.machine import SystemMachine
from chiplog_broker.ports.net import Net, SystemNet
from chiplog_broker.security.credentials import FileCredentials, Keyring
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.security.tls import TlsFiles, client_context
from chiplog_broker.server.inquiries import InquiryServer
from chiplog_broker.server.operator_tls import OperatorTls
from chiplog_core.ids import BrokerId
from chiplog_core.naming.peers import is_broker, is_operator
from chiplog_core.version import VERSION
from chiplog_kube.connection import Connection, NoConnection
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi

CREDENTIALS = Path("/etc/chiplog-internal")
INTERNAL_TLS = Path("/etc/chiplog-internal-tls")
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a pod's addresses are all its own


def member(
    options: argparse.Namespace,
    net: Net | None = None,
    internal_host: str = EVERY_ADDRESS,
    connection: Connection | None = None,
) -> Broker:
    """A broker that the operator admits. Raises `CannotStart`.

    If several run on one machine, each needs its own `internal_host`, since all use the same port,
    and a `net` that resolves the others' addresses, since these are names of pods. `connection`
    replaces `--kubeconfig` and the pod's own access to the API server.
    """
    config = member_config(options.config, options.broker_id)
    connection = connection or api_server(options.kubeconfig)
    ports = directory_ports("--data", options.data)
    api = HttpKubeApi(connection)
    # The broker itself says when the API server goes away and when it is back.
    logging.getLogger("chiplog_kube").setLevel(logging.ERROR)
    credentials = internal_credentials(options.credentials, ports.clock)
    process = Process(
        cluster=options.cluster,
        namespace=options.namespace or os.environ.get("POD_NAMESPACE") or connection.namespace,
        broker_id=BrokerId(options.broker_id),
        incarnation=new_incarnation(ports.rng),
        version=VERSION,
    )
    membership = KubernetesMembership(
        process,
        MemberPorts(
            api=api,
            clock=ports.clock,
            rng=ports.rng,
            metadata=ports.metadata,
            data=ports.data,
            machine=SystemMachine(options.termination_log, os.environ.get("POD_UID", "")),
            close_api=api.close,
            internal=credentials,
        ),
        config,
    )
    bound = member_listeners(config)
    dialer = None
    tls = internal_tls(options.internal_tls, process)
    if credentials is not None:
        keyring = Keyring(credentials, ports.rng)
        # The operator determines the advertised address, so none is given.
        bound.append(internal_listener("", keyring, tls=tls, host=internal_host))
        name = f"broker-{options.broker_id}"
        files = None if tls is None else TlsFiles(tls, ports.clock, client_context)
        connect = (net or SystemNet()).connect
        dialer = Dialer(connect, ports.rng, credentials, name, tls=files)
    broker = Broker(ports, config, bound, str(options.data / "data"), membership, dialer)
    broker.api_server_keys = ApiServerKeys(api.document)
    if credentials is not None:
        broker.waits_for_others = True
        broker.inquiries = InquiryServer(process.incarnation, ports.clock, credentials)
        if tls is not None:
            broker.operator_tls = OperatorTls.of(of_operator(tls, process), ports.clock)
    return broker


def api_server(kubeconfig: Path | None) -> Connection:
    """The address and credentials of the API server: those of the file, or of the pod if it is
    None. Raises `CannotStart` with the remedy."""
    try:
        return find(kubeconfig)
    except NoConnection as problem:
        raise CannotStart(
            f"the Kubernetes API cannot be used: {problem}; run in a pod, or use --kubeconfig"
        ) from problem


def internal_credentials(directory: Path | None, clock: Clock) -> FileCredentials | None:
    """The credentials that brokers use among themselves. `directory` is that of `--credentials`;
    without it the one mounted into a pod is used. None if there is neither."""
    if directory is None and not CREDENTIALS.is_dir():
        return None
    return FileCredentials(directory or CREDENTIALS, clock)


def internal_tls(directory: Path | None, process: Process) -> TlsSettings | None:
    """The files for connections with other brokers. `directory` is that of `--internal-tls`;
    without it the one mounted into a pod is used. None if there is neither."""
    if directory is None and not INTERNAL_TLS.is_dir():
        return None
    location = directory or INTERNAL_TLS
    return TlsSettings(
        location,
        location,
        ClientAuth.REQUIRED,
        keystore_key="--internal-tls",
        truststore_key="--internal-tls",
        is_admitted=partial(is_broker, cluster=process.cluster, namespace=process.namespace),
    )


def of_operator(tls: TlsSettings, process: Process) -> TlsSettings:
    """The same files, for connections of the operator only."""
    names = {"cluster": process.cluster, "namespace": process.namespace}
    return replace(tls, is_admitted=partial(is_operator, **names))
