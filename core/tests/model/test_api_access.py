"""The token a pod gets: by what the API server makes of its lifetime."""

from chiplog_core.model.api_access import projected_volume

LEAST_S = 600
"""The API server gives no shorter one."""

LEGACY_S = 3_607
"""Asked for exactly this, it gives one of a year."""


def test_it_ends_within_the_hour() -> None:
    sources = projected_volume()["projected"]["sources"]
    (token,) = [one["serviceAccountToken"] for one in sources if "serviceAccountToken" in one]
    assert LEAST_S <= token["expirationSeconds"] <= 3_600
    assert token["expirationSeconds"] != LEGACY_S
    assert "audience" not in token, "the API server's own is what it is for"


def test_nobody_changes_it_for_the_next() -> None:
    projected_volume()["projected"]["sources"].clear()
    assert len(projected_volume()["projected"]["sources"]) == 3
