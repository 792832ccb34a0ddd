"""One run of a command: which cluster it is about, and what is opened only when it is needed."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog_cli.facts import Broker
from chiplog_cli.port import KafkaAdmin, KafkaTransactions
from chiplog_cli.printing import Format, remark
from chiplog_cli.security import PLAINTEXT, Reached, Security
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
    config: Path | None = None
    """The file of --config."""

    @cached_property
    def kubernetes(self) -> "Kubernetes | None":
        """The BrokerCluster, if --cluster names one. Raises `CannotDo`."""
        if isinstance(self.target, ByAddress):
            return None
        from chiplog_cli.kubernetes import Kubernetes  # noqa: PLC0415 - most commands need none

        return Kubernetes(self.target, self.timeout_s)

    @cached_property
    def connection(self) -> "Connection":
        """The addresses of the brokers, checked once as `new_connection` does. Raises
        `CannotDo`."""
        return self.new_connection()

    def new_connection(self) -> "Connection":
        """The addresses of the brokers, after a check that one of them accepts connections now. No
        connection stays open. Raises `CannotDo`."""
        from chiplog_cli.librdkafka.connecting import connect  # noqa: PLC0415 - as below

        found, given_by = self._reached()
        return connect(found.bootstrap_servers, given_by, self.timeout_s, found.security)

    def _reached(self) -> tuple[Reached, str]:
        """Where and how to connect, and the option or variable that says where. Raises
        `CannotDo`."""
        target = self.target
        if isinstance(target, ByAddress):
            security = self._given or PLAINTEXT
            where = Reached(bootstrap_servers=target.bootstrap_servers, security=security)
            return where, target.given_by
        assert self.kubernetes is not None, "a cluster is named by an address, or on Kubernetes"
        return self.kubernetes.reached(self._given), f"--cluster {target.name}"

    @cached_property
    def _given(self) -> Security | None:
        """What --config says; None without it. Remarks on properties that are not used. Raises
        `CannotDo`."""
        if self.config is None:
            return None
        from chiplog_cli.config_file import read_config  # noqa: PLC0415 - as below

        config = read_config(self.config)
        if config.unused:
            remark(f"chiplog: --config {self.config}: not used: {', '.join(config.unused)}")
        return config.security

    @cached_property
    def admin(self) -> KafkaAdmin:
        """The admin client. Raises `CannotDo`."""
        return admin_of(self.connection)

    @cached_property
    def transactions(self) -> KafkaTransactions:
        """The client for transactions. Raises `CannotDo`."""
        from chiplog_cli.librdkafka.transactions import BrokerTransactions  # noqa: PLC0415 - as above

        return BrokerTransactions(self.connection, self.admin)

    def admin_at(self, broker: Broker, security: Security) -> KafkaAdmin:
        """A new admin client of this broker, which connects as `security` says. Raises `CannotDo`.
        It checks that the broker accepts connections now."""
        from chiplog_cli.librdkafka.connecting import connect  # noqa: PLC0415 - as above

        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        address, given_by = f"{host}:{broker.port}", f"broker {broker.id}"
        return admin_of(connect(address, given_by, self.timeout_s, security))


def admin_of(connection: "Connection") -> KafkaAdmin:
    """The admin client of a connection. librdkafka is imported only now."""
    from chiplog_cli.librdkafka.groups import LibrdkafkaAdmin  # noqa: PLC0415 - 50 ms

    return LibrdkafkaAdmin(connection)
