"""CAs are replaced as fast as brokers report that they are ready, and never faster."""

from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from chiplog_core.certificates.authority import PUBLISHED_FOR
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Forbidden
from tests.shell.conftest import CLUSTER, NAMESPACE
from tests.shell.test_users import (
    READS,
    SECURE,
    apply_user,
    certificate,
    entries,
    message,
    patch_user,
)

CLUSTER_CA, CLIENTS_CA = "demo-cluster-ca", "demo-clients-ca"
PUBLISHED_S = PUBLISHED_FOR.total_seconds()
SHORT_S = 45.0
"""The operator looks at Secrets every 30 seconds, and at users of a CA that changes every ten."""


@pytest.fixture
def secure(bench: Any) -> Any:
    bench.keeps_users = True
    return bench


def published(bench: Any, ca: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(entries(bench, f"{ca}-cert")["ca.crt"])


def of_broker(bench: Any, number: int) -> x509.Certificate:
    return x509.load_pem_x509_certificate(entries(bench, "demo-broker-certs")[f"{number}.crt"])


def fingerprints(*certificates: x509.Certificate) -> list[str]:
    return sorted(one.fingerprint(hashes.SHA256()).hex() for one in certificates)


async def report(bench: Any, *numbers: int, **instead: Any) -> None:
    """These brokers use what their Secrets have now."""
    for number in numbers:
        (shown,) = fingerprints(of_broker(bench, number))
        found = {
            "listener": "tls",
            "fingerprint": shown,
            "trusted": fingerprints(*published(bench, CLIENTS_CA)),
        }
        reported = {name: one for name, one in {**found, **instead}.items() if one is not None}
        await bench.brokers[number]._patch_status({"listenerCertificates": [reported]})


async def ask(bench: Any, secret: str, annotation: str) -> None:
    patch = {"metadata": {"annotations": {annotation: "true"}}}
    await bench.api.patch(kinds.SECRETS, NAMESPACE, secret, patch, field_manager="kubectl")


def changing(bench: Any) -> str:
    """The message of the condition."""
    status = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"]
    found = [one for one in status["conditions"] if one["type"] == "CertificatesChanging"]
    return found[0]["message"] if found else ""


async def start(bench: Any) -> None:
    """A cluster with a user, whose brokers report."""
    await bench.apply_cluster(**SECURE)
    await apply_user(bench, "shop", "tls", READS)
    await bench.clock.advance(1.0)
    await bench.start_brokers()
    await bench.live(5.0)
    await report(bench, 1, 2, 3)
    await bench.live(5.0)
    assert changing(bench) == ""


def test_users_get_certificates_of_a_new_ca_when_every_broker_trusts_it(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            first = certificate(secure, "shop")
            await ask(secure, CLIENTS_CA, labels.FORCE_REPLACE)
            await secure.live(SHORT_S)
            new, old = published(secure, CLIENTS_CA)
            assert "0 of 3 brokers trust it" in changing(secure)
            await report(secure, 1, 3)
            # However long it takes: the third broker may have another node.
            await secure.live(2 * PUBLISHED_S)
            assert certificate(secure, "shop") == first
            assert changing(secure) == (
                "the clients CA has a new key: 2 of 3 brokers trust it; its certificates wait for "
                "the others (broker 2 does not trust it yet)"
            )
        async with secure.running():  # another operator
            await secure.live(SHORT_S)
            assert certificate(secure, "shop") == first
            await report(secure, 2)
            await secure.live(15.0)
            second = certificate(secure, "shop")
            second.verify_directly_issued_by(new)
            await ask(secure, f"{CLIENTS_CA}-cert", labels.REMOVE_OLD_CA)
            await secure.live(SHORT_S)
            assert published(secure, CLIENTS_CA) == [new, old], "the user may not have read it"
            assert "users have until" in changing(secure)
            await secure.live(PUBLISHED_S)
            assert published(secure, CLIENTS_CA) == [new]
            assert changing(secure) == (
                "certificates of the clients CA that are not in Secret demo-clients-ca-cert any "
                "more are still trusted by broker 1, broker 2, broker 3"
            )
            await report(secure, 1, 2, 3)
            await secure.live(SHORT_S)
            assert changing(secure) == ""

    secure.run(scenario())


def test_a_broker_that_is_down_or_starts_holds_what_it_would_have_to_trust(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            first = certificate(secure, "shop")
            await ask(secure, CLIENTS_CA, labels.FORCE_REPLACE)
            await secure.live(60.0, without=(2,))
            await report(secure, 1, 2, 3)
            await secure.live(PUBLISHED_S, without=(2,))
            assert certificate(secure, "shop") == first
            assert "(broker 2 is down)" in changing(secure)
            # A new user has nothing to lose, and most brokers let it in.
            await apply_user(secure, "late", "tls", READS)
            await secure.live(15.0, without=(2,))
            assert certificate(secure, "late").issuer != first.issuer
            await secure.brokers[2].register()
            await report(secure, 2, fingerprint=None)
            await secure.live(SHORT_S)
            assert certificate(secure, "shop") == first
            assert "(broker 2 is starting)" in changing(secure)
            await report(secure, 2)
            await secure.live(15.0)
            assert certificate(secure, "shop").issuer == certificate(secure, "late").issuer

    secure.run(scenario())


def test_a_user_learns_what_it_waits_for(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            await ask(secure, CLIENTS_CA, labels.FORCE_REPLACE)
            await secure.live(2 * SHORT_S)
            await report(secure, 1, 2)
            await apply_user(secure, "late", "tls", READS)
            await secure.live(10.0)
            assert message(secure, "late") == (
                "waiting for brokers to trust the new certificate of the clients CA (broker 3 does "
                "not trust it yet)"
            )

    secure.run(scenario())


def test_the_old_cluster_ca_is_removed_when_every_broker_shows_the_new_one(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            await ask(secure, CLUSTER_CA, labels.FORCE_REPLACE)
            await secure.live(SHORT_S)
            new, old = published(secure, CLUSTER_CA)
            before = of_broker(secure, 1)
            # Brokers report nothing of it, because only clients check it: they get their time.
            assert "clients have until" in changing(secure)
            await secure.live(PUBLISHED_S)
            for number in (1, 2, 3):
                of_broker(secure, number).verify_directly_issued_by(new)
            await ask(secure, f"{CLUSTER_CA}-cert", labels.REMOVE_OLD_CA)
            await report(secure, 1, 3)
            await secure.live(2 * PUBLISHED_S)
            assert published(secure, CLUSTER_CA) == [new, old]
            assert changing(secure) == (
                "the cluster CA has a new key: 2 of 3 brokers show their certificates of it "
                "(broker 2 shows another certificate)"
            )
            await report(secure, 2)
            await secure.live(3.0)
            assert published(secure, CLUSTER_CA) == [new], "it needs no time once all show it"
            assert of_broker(secure, 1) != before

    secure.run(scenario())


def test_two_replacements_in_a_row(secure: Any) -> None:
    """The second comes before any broker has read the first."""

    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            for ca in (CLIENTS_CA, CLUSTER_CA):
                await ask(secure, ca, labels.FORCE_REPLACE)
                await secure.live(SHORT_S)
                await ask(secure, ca, labels.FORCE_REPLACE)
                await secure.live(SHORT_S)
                assert len(published(secure, ca)) == 3
            first = certificate(secure, "shop")
            await secure.live(PUBLISHED_S)
            assert certificate(secure, "shop") == first
            await report(secure, 1, 2, 3)
            await secure.live(15.0)
            for secret in (f"{CLIENTS_CA}-cert", f"{CLUSTER_CA}-cert"):
                await ask(secure, secret, labels.REMOVE_OLD_CA)
            await secure.live(PUBLISHED_S + SHORT_S)
            (clients_ca,), (cluster_ca,) = (
                published(secure, ca) for ca in (CLIENTS_CA, CLUSTER_CA)
            )
            certificate(secure, "shop").verify_directly_issued_by(clients_ca)
            of_broker(secure, 2).verify_directly_issued_by(cluster_ca)

    secure.run(scenario())


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_user_whose_secret_cannot_be_written_keeps_the_old_ca(
    secure: Any, *, is_restarted: bool
) -> None:
    """It still has a certificate of the old key, whatever this process wanted to give it."""

    async def asked() -> None:
        await ask(secure, CLIENTS_CA, labels.FORCE_REPLACE)
        await secure.live(SHORT_S)
        await report(secure, 1, 2, 3)
        refused = {"apply"}
        secure.api.fault = lambda call: (
            Forbidden("secrets is forbidden")
            if call.name == "shop" and call.kind == kinds.SECRETS.kind and call.verb in refused
            else None
        )
        await secure.live(15.0)
        refused.add("get")
        await ask(secure, f"{CLIENTS_CA}-cert", labels.REMOVE_OLD_CA)

    async def waited() -> None:
        await secure.live(2 * PUBLISHED_S)
        assert len(published(secure, CLIENTS_CA)) == 2
        assert "0 of 1 certificates of users are issued from it" in changing(secure)
        secure.api.fault = lambda _: None
        await secure.live(PUBLISHED_S + 3 * SHORT_S)
        (new,) = published(secure, CLIENTS_CA)
        certificate(secure, "shop").verify_directly_issued_by(new)

    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            await asked()
            if not is_restarted:
                await waited()
        if is_restarted:
            async with secure.running():
                await waited()

    secure.run(scenario())


def test_a_user_that_cannot_be_parsed_keeps_the_old_ca(secure: Any) -> None:
    """Like one with a field of a newer version: nobody knows what it needs."""

    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            await patch_user(secure, "shop", {"newer": 1})
            await ask(secure, CLIENTS_CA, labels.FORCE_REPLACE)
            await secure.live(SHORT_S)
            await report(secure, 1, 2, 3)
            await ask(secure, f"{CLIENTS_CA}-cert", labels.REMOVE_OLD_CA)
            await secure.live(2 * PUBLISHED_S)
            assert len(published(secure, CLIENTS_CA)) == 2
            assert "0 of 1 certificates of users are issued from it" in changing(secure)
            await patch_user(secure, "shop", {"newer": None})
            await secure.live(PUBLISHED_S + 2 * SHORT_S)
            (new,) = published(secure, CLIENTS_CA)
            certificate(secure, "shop").verify_directly_issued_by(new)

    secure.run(scenario())


def test_a_stolen_key_is_given_up_without_waiting_for_anybody(secure: Any) -> None:
    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            first = certificate(secure, "shop")
            for name in (CLIENTS_CA, f"{CLIENTS_CA}-cert"):
                await secure.api.delete(kinds.SECRETS, NAMESPACE, name)
            await secure.live(2 * SHORT_S, without=(2,))
            (new,) = published(secure, CLIENTS_CA)
            certificate(secure, "shop").verify_directly_issued_by(new)
            assert certificate(secure, "shop").issuer != first.issuer

    secure.run(scenario())


def test_the_cluster_ca_waits_until_brokers_trust_it_between_themselves(secure: Any) -> None:
    async def as_peers(*numbers: int) -> None:
        for number in numbers:
            (shown,) = fingerprints(of_broker(secure, number))
            own = {
                "listener": "internal",
                "fingerprint": shown,
                "trusted": fingerprints(*published(secure, CLUSTER_CA)),
            }
            await secure.brokers[number]._patch_status({"listenerCertificates": [own]})

    async def scenario() -> None:
        async with secure.running():
            await start(secure)
            await as_peers(1, 2, 3)
            await secure.live(5.0)
            first = of_broker(secure, 1)
            await ask(secure, CLUSTER_CA, labels.FORCE_REPLACE)
            await secure.live(SHORT_S)
            new, old = published(secure, CLUSTER_CA)
            await as_peers(1, 3)
            await secure.live(2 * PUBLISHED_S)
            assert of_broker(secure, 1) == first, "broker 2 would refuse another one"
            assert changing(secure) == (
                "the cluster CA has a new key: 2 of 3 brokers trust it; its certificates wait for "
                "the others (broker 2 does not trust it yet)"
            )
            await as_peers(2)
            await secure.live(15.0)
            of_broker(secure, 1).verify_directly_issued_by(new)
            found = entries(secure, "demo-broker-certs")["operator.crt"]
            x509.load_pem_x509_certificate(found).verify_directly_issued_by(new)
            await ask(secure, f"{CLUSTER_CA}-cert", labels.REMOVE_OLD_CA)
            await secure.live(SHORT_S)
            assert published(secure, CLUSTER_CA) == [new, old], "no broker shows the new one"
            await as_peers(1, 2, 3)
            await secure.live(SHORT_S)
            assert published(secure, CLUSTER_CA) == [new]

    secure.run(scenario())
