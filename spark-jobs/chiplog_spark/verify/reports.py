"""The reports of tasks to the driver, as JSON of bounded size."""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.placement import Tally
from chiplog_spark.verify.surviving import Suspicion


class Refusal(NamedTuple):
    """A replica that refused a read."""

    reason: str
    offset: int
    message: str


@dataclass(slots=True, kw_only=True)
class Read:
    """One split of one replica: how far it was read, and its findings."""

    topic: str
    partition: int
    replica: int
    start: int
    end: int
    """The end of the last offset that was read, or found missing."""
    planned_end: int
    bytes: int = 0
    records: int = 0
    batches: int = 0
    unreadable: int = 0
    """Batches with a correct checksum whose records cannot be parsed: a client sent them so."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    was_cut: bool = False
    """Whether the time limit ended the read before `planned_end`."""
    refusal: Refusal | None = None
    findings: list[Finding] = field(default_factory=list)
    misplaced: list[Finding] = field(default_factory=list)
    """Findings about key placement; they count only once the topic's partitioner is known."""
    more: dict[str, int] = field(default_factory=dict)
    """Check -> number of further findings, which are not in `findings`."""
    tally: Tally = field(default_factory=Tally)

    @property
    def is_whole(self) -> bool:
        return self.end >= self.planned_end and self.refusal is None

    def to_json(self) -> str:
        # Not `asdict` for all of it: a Counter is no dataclass, and is not made of pairs.
        return json.dumps({**asdict(replace(self, tally=Tally())), "tally": self.tally.to_json()})

    @staticmethod
    def from_json(text: str) -> "Read":
        value = json.loads(text)
        value["refusal"] = Refusal(*value["refusal"]) if value["refusal"] else None
        value["findings"] = [_finding(finding) for finding in value["findings"]]
        value["misplaced"] = [_finding(finding) for finding in value["misplaced"]]
        value["tally"] = Tally.from_json(value["tally"])
        return Read(**value)


@dataclass(slots=True, kw_only=True)
class Found:
    """One finding of the second stage, or the number of further ones like it."""

    finding: Finding
    suspicion: Suspicion | None = None
    more: int = 0

    def to_json(self) -> str:
        suspicion = self.suspicion and [self.suspicion.key.hex(), *self.suspicion[1:]]
        return json.dumps([list(self.finding), suspicion, self.more])

    @staticmethod
    def from_json(text: str) -> "Found":
        finding, suspicion, more = json.loads(text)
        known = suspicion and Suspicion(bytes.fromhex(suspicion[0]), *suspicion[1:])
        return Found(finding=_finding(finding), suspicion=known, more=more)


def _finding(value: list[Any]) -> Finding:
    return Finding(Check(value[0]), *value[1:])
