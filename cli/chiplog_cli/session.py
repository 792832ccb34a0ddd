"""One run of a command: which cluster it is about, and what is opened only when it is needed."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chiplog_cli.facts import Broker
from chiplog_cli.port import KafkaAdmin
from chiplog_cli.printing import Format
from chiplog_cli.target import ByAddress, ByName

if TYPE_CHECKING:
    from chiplog_cli.kubernetes import Kubernetes
    from chiplog_cli.librdkafka.connecting import Connection


@dataclass(frozen=True)
class Session:
    """What the shared options mean for one run of a command."""

    target: ByAddress | ByName
    form: Format
    timeout_s: float

    @cached_property
    def kubernetes(self) -> "Kubernetes | None":
        """The BrokerCluster, if --cluster names one. Raises `CannotDo`."""
        if isinstance(self.target, ByAddress):
            return None
        from chiplog_cli.kubernetes import Kubernetes  # noqa: PLC0415 - most commands need none

        return Kubernetes(self.target, self.timeout_s)

    @cached_property
    def connection(self) -> "Connection":
        """The addresses of the brokers, checked once as `_connected` does. Raises `CannotDo`."""
        return self._connected()

    def _connected(self) -> "Connection":
        """The addresses of the brokers, after a check that one of them accepts connections now. No
        connection stays open. Raises `CannotDo`."""
        from chiplog_cli.librdkafka.connecting import connect  # noqa: PLC0415 - as below

        if isinstance(self.target, ByAddress):
            return connect(self.target.bootstrap_servers, self.target.given_by, self.timeout_s)
        assert self.kubernetes is not None, "a cluster is named by an address, or on Kubernetes"
        found = self.kubernetes.bootstrap_servers()
        return connect(found, f"--cluster {self.target.name}", self.timeout_s)

    @cached_property
    def admin(self) -> KafkaAdmin:
        """The admin client. Raises `CannotDo`."""
        return _admin(self.connection)

    def admin_at(self, broker: Broker | None) -> KafkaAdmin:
        """A new admin client of this broker; of the bootstrap brokers if None. Raises `CannotDo`.
        It checks that the broker accepts connections now."""
        if broker is None:
            return _admin(self._connected())
        from chiplog_cli.librdkafka.connecting import connect  # noqa: PLC0415 - as above

        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        return _admin(connect(f"{host}:{broker.port}", f"broker {broker.id}", self.timeout_s))


def _admin(connection: "Connection") -> KafkaAdmin:
    """The admin client of a connection. librdkafka is imported only now."""
    from chiplog_cli.librdkafka.groups import LibrdkafkaAdmin  # noqa: PLC0415 - 50 ms

    return LibrdkafkaAdmin(connection)
