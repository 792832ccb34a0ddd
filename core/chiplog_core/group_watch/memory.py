"""The last answers of brokers about groups and partitions, and since when they do not answer."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from chiplog_core.group_watch.lags import Lags
from chiplog_core.groups.at import At
from chiplog_core.model.group_exchange import GroupFacts

PATIENCE_MS: Final = 2_000
"""A broker that does not answer for this long is reported in the status. When a coordinator moves,
there are no answers for a shorter time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The knowledge about one group."""

    facts: GroupFacts | None = None
    """The last answer of the group's coordinator; None if there was none yet."""
    lags: Lags | None = None
    silent_since_ms: int | None = None
    """Since when the coordinator does not answer; None if it has answered in the last pass."""
    why: str = ""
    """Why the coordinator does not answer."""
    gone_since_ms: int | None = None
    """Since when the coordinator reports that the group does not exist; None if it exists or the
    coordinator does not answer."""

    def answered(self, facts: GroupFacts, now_ms: int, *, is_gone: bool) -> "Known":
        """The knowledge after the coordinator answered. `is_gone`: the group does not exist."""
        since_ms = self.gone_since_ms if self.gone_since_ms is not None else now_ms
        return replace(
            self,
            facts=facts,
            silent_since_ms=None,
            why="",
            gone_since_ms=since_ms if is_gone else None,
        )

    def not_answered(self, why: str, now_ms: int) -> "Known":
        """The knowledge after a pass without an answer of the coordinator; `why` is the reason."""
        since_ms = self.silent_since_ms if self.silent_since_ms is not None else now_ms
        return replace(self, silent_since_ms=since_ms, why=why, gone_since_ms=None)

    @property
    def is_current(self) -> bool:
        """Whether the coordinator answered in the last pass."""
        return self.facts is not None and self.silent_since_ms is None

    def silent(self, now_ms: int) -> str:
        """The reason why the coordinator has not answered for `PATIENCE_MS`; empty if it has
        answered in this time."""
        if self.silent_since_ms is None or now_ms - self.silent_since_ms < PATIENCE_MS:
            return ""
        return self.why


@dataclass(slots=True)
class UnreachablePartitions:
    """Partitions whose leaders do not answer, and since when."""

    since_ms: dict[At, int] = field(default_factory=dict)

    def update(self, unreachable: Collection[At], now_ms: int) -> None:
        """Record which partitions got no answer in this pass. Each keeps the time of its first
        pass without one."""
        self.since_ms = {at: self.since_ms.get(at, now_ms) for at in unreachable}

    def for_long(self, among: Collection[At], now_ms: int) -> tuple[str, ...]:
        """The partitions of `among` whose leaders have not answered for `PATIENCE_MS`."""
        return tuple(
            str(at) for at in sorted(among) if now_ms - self.since_ms.get(at, now_ms) >= PATIENCE_MS
        )


def gone_ms(known: Mapping[str, Known], now_ms: int) -> dict[str, int]:
    """Group id -> for how many milliseconds it has been known not to exist."""
    return {
        group_id: now_ms - known_group.gone_since_ms
        for group_id, known_group in known.items()
        if known_group.gone_since_ms is not None
    }
