"""The identity and the ports of a store."""

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any

from chiplog_broker.metadata.kubernetes.map_files import MapFiles
from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.metadata.kubernetes.process import Process
from chiplog_broker.metadata.kubernetes.renewals import Renewals
from chiplog_broker.metadata.port import Node
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.credentials import CredentialSource
from chiplog_kube.api import KubeApi

StartTask = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParts:
    """The identity, ports and services of a store."""

    process: Process
    api: KubeApi
    clock: Clock
    rng: Rng
    metadata: Disk
    data: Disk
    outages: Outages
    files: MapFiles
    node: Node
    config: MutableMapping[str, str]
    start: StartTask
    renewals: Renewals
    internal: CredentialSource | None = None
