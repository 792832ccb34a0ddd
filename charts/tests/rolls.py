"""Rolling restarts as Prometheus sees them, for `promtool test rules`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from charts.tests.files import Manifest

STEP_S = 10
SCRAPE_S = 30
BEGIN_S = 600
AFTER_S = 600
"""Looked at for so long after the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """One broker after the other, the next one the moment the last is in sync again."""

    brokers: int
    away_s: int
    """From the end of the old process until the new one serves."""
    behind_s: int
    """From then until every replica is in sync."""
    replicas: int = 3
    """Of every topic. With one, what a broker leads has no leader while it is away; with two, both
    must be in sync."""

    def __str__(self) -> str:
        times = f"{self.away_s}s-away-{self.behind_s}s-behind"
        return f"{self.brokers}-brokers-{times}-replicas-{self.replicas}"

    def test(self, alerts: list[str]) -> Manifest:
        """For promtool: of these alerts none may fire at any time."""
        times_s = range(BEGIN_S, self.begins_s(self.brokers) + AFTER_S, SCRAPE_S)
        return {
            "name": str(self),
            "interval": f"{STEP_S}s",
            "input_series": [
                {"series": name, "values": " ".join(values)} for name, values in self._series()
            ],
            "alert_rule_test": [
                {"alertname": alert, "eval_time": f"{at_s}s", "exp_alerts": []}
                for alert in alerts
                for at_s in times_s
            ],
        }

    def _series(self) -> Iterator[tuple[str, list[str]]]:
        for broker in range(self.brokers):
            pod = f'namespace="shop",cluster="demo",pod="demo-broker-{broker}-0"'
            for metric, figure in FIGURES.items():
                name = f'{metric}{{job="chiplog-brokers",{pod}}}'
                yield name, list(self._scraped(broker, metric, figure))

    def _scraped(self, broker: int, metric: str, figure: "Figure") -> Iterator[str]:
        """Every broker is scraped at a moment of its own."""
        away = "0" if metric == "up" else "stale"
        for at_s in range(0, self.begins_s(self.brokers) + AFTER_S, STEP_S):
            if at_s % SCRAPE_S != broker * STEP_S % SCRAPE_S:
                yield "_"
            else:
                yield away if self.is_away(broker, at_s) else str(int(figure(self, broker, at_s)))

    def begins_s(self, broker: int) -> int:
        """When a broker goes; of the one after the last: when the roll is over."""
        return BEGIN_S + broker * (self.away_s + self.behind_s)

    def is_away(self, broker: int, at_s: int) -> bool:
        return 0 <= at_s - self.begins_s(broker) < self.away_s

    def rolls(self, at_s: int) -> bool:
        return self.begins_s(0) <= at_s < self.begins_s(self.brokers)


def _lacks_leaders(roll: Roll, _: int, at_s: int) -> bool:
    return roll.replicas == 1 and any(roll.is_away(one, at_s) for one in range(roll.brokers))


Figure = Callable[[Roll, int, int], int | bool]
FIGURES: Mapping[str, Figure] = {
    "up": lambda roll, broker, at_s: True,
    "kafka_brokers": lambda roll, broker, at_s: roll.brokers,
    "process_start_time_seconds": lambda roll, broker, at_s: at_s >= roll.begins_s(broker),
    "kafka_server_replicamanager_underreplicatedpartitions": (
        lambda roll, broker, at_s: roll.rolls(at_s) and roll.replicas > 1
    ),
    "kafka_server_replicamanager_underminisrpartitioncount": (
        lambda roll, broker, at_s: roll.rolls(at_s) and roll.replicas == 2
    ),
    "kafka_controller_kafkacontroller_offlinepartitionscount": _lacks_leaders,
}
