"""The operator's inquiries to brokers, as over HTTP: late, lost, or for a process that has ended.

Signatures and HTTP itself are left out: they have tests of their own.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from chiplog_broker.server.inquiries import Inquiries
from chiplog_core.model.group_exchange import request_from_body, to_body
from chiplog_core.observed.processes import Identity
from chiplog_operator.groups.port import Access, NoAnswer
from e2e.sim.kubelet import Node
from e2e.sim.network import Network

ANSWER_WITHIN_S: Final = 3.0


class SimInquiries:
    """A broker's side: what its `InquiryServer` answers, without HTTP."""

    def __init__(self) -> None:
        self._inquiries: Inquiries = {}

    def open(self, inquiries: Inquiries) -> None:
        self._inquiries = inquiries

    def close(self) -> None:
        self._inquiries = {}

    async def answer(self, path: str, body: bytes) -> bytes | None:
        """The body of the answer; None while the broker serves nobody."""
        inquiry = self._inquiries.get(path)
        if inquiry is None:
            return None
        return to_body(await inquiry.answer(request_from_body(inquiry.request_class, body)))


class SimGroupsPort:
    """The operator's side, on one host: a `GroupsPort`."""

    def __init__(self, host: str, network: Network, nodes: Mapping[int, Node]) -> None:
        self._host = host
        self._network = network
        self._nodes = nodes

    async def ask(self, process: Identity, access: Access, path: str, body: bytes) -> bytes:
        """Ask a broker's process. Raises `NoAnswer` if it is not reached, has ended, is another
        one, or does not answer in time."""
        del access
        await asyncio.sleep(self._network.delay_s())
        node = self._nodes.get(int(process.broker_id))
        if node is None or not self._is_open(node):
            await asyncio.sleep(ANSWER_WITHIN_S)
            raise NoAnswer("no answer in time")
        running, broker = node.process, node.broker
        if running is None or broker is None or broker.health.incarnation != process.incarnation:
            raise NoAnswer("refused")
        inquiries: object = broker.inquiries
        if not isinstance(inquiries, SimInquiries):
            raise NoAnswer("refused")
        answering = running.spawn(inquiries.answer(path, body), f"{self._host} asks {path}")
        done, _ = await asyncio.wait({answering}, timeout=ANSWER_WITHIN_S)
        await asyncio.sleep(self._network.delay_s())
        if not done or not self._is_open(node):
            raise NoAnswer("no answer in time")
        answer = answering.result()
        if answer is None:
            raise NoAnswer("status 503")
        return answer

    def _is_open(self, node: Node) -> bool:
        """Whether requests reach the node, and answers come back."""
        network = self._network
        return network.is_open(self._host, node.host) and network.is_open(node.host, self._host)
