"""What a cut drops, as nft reads it."""

import pytest

from e2e.cluster import cut

POD = "198.18.1.7"


def hooks(one: cut.Cut) -> set[str]:
    return {line.split()[1] for line in one.rules().splitlines() if line.startswith("  chain")}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (cut.whole(POD), {"forward", "input", "output"}),
        (cut.outgoing(POD), {"forward", "input"}),
        (cut.from_api_server(POD), {"input", "output"}),
        (cut.from_clients(POD, (9092, 9094)), {"input", "output"}),
        (cut.everything("198.18.1.0/24"), {"forward", "input", "output"}),
    ],
)
def test_every_drop_is_counted_and_names_the_pod(one: cut.Cut, expected: set[str]) -> None:
    assert hooks(one) == expected
    drops = [line for line in one.rules().splitlines() if line.endswith("drop")]
    assert drops
    assert all("198.18.1." in line and "counter drop" in line for line in drops)


def test_one_way_drops_nothing_that_is_sent_to_the_pod() -> None:
    assert "daddr 198.18.1.7" not in cut.outgoing(POD).rules()


def test_clients_are_cut_off_by_the_ports_they_use() -> None:
    assert "tcp dport { 9092, 9094 } counter drop" in cut.from_clients(POD, (9092, 9094)).rules()
