"""Every checker of users sees what was planted for it, and nothing in a history without faults."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from e2e.sim.checkers import check
from e2e.sim.history import History
from e2e.sim.users.accounts import Account, implied
from e2e.sim.users.history import (
    Answer,
    Calm,
    Intent,
    Kept,
    Listed,
    Login,
    LostCertificate,
    Trusted,
    UserHistory,
    Verifiable,
)

PROCESS, USER, PRINCIPAL = "broker-1#1", "writer-1", "User:writer-1"
RIGHT = "Write", "orders"
ALL, NONE = frozenset({RIGHT}), frozenset[tuple[str, str]]()
OLD, NEW = "ca of before", "ca of now"


def answer(at_s: float, *, is_allowed: bool = True, **more: Any) -> Answer:
    given = {
        "at_s": at_s,
        "asked_s": at_s - 0.01,
        "client": "user-writer-1",
        "user": USER,
        "principal": PRINCIPAL,
        "process": PROCESS,
        "right": RIGHT,
        "is_allowed": is_allowed,
        "login_s": 1.0,
    }
    return Answer(**{**given, **more})


def login(at_s: float, *, is_accepted: bool = True, **more: Any) -> Login:
    given = {
        "at_s": at_s,
        "asked_s": at_s - 0.01,
        "client": "user-writer-1",
        "user": USER,
        "process": PROCESS,
        "broker_id": 1,
        "is_accepted": is_accepted,
    }
    return Login(**{**given, **more})


def sound() -> History:
    """A user with all rights from 0 s on, without any from 10 s on, and deleted at 20 s; its
    password was changed at 5 s, and the CA of certificates was replaced then, too."""
    history = History()
    users = history.users
    users.intents = [
        Intent(0.0, USER, exists=True, rights=ALL, password="one"),  # noqa: S106
        Intent(5.0, USER, exists=True, rights=ALL, password="two"),  # noqa: S106
        Intent(10.0, USER, exists=True, rights=NONE, password="two"),  # noqa: S106
        Intent(20.0, USER, exists=False),
    ]
    users.listed = [
        Listed(0.5, PROCESS, {PRINCIPAL: ALL}),
        Listed(10.5, PROCESS, {PRINCIPAL: NONE}),
        Listed(20.5, PROCESS, {}),
    ]
    users.verifiable = [
        Verifiable(0.5, PROCESS, {USER: "one"}),
        Verifiable(5.5, PROCESS, {USER: "two"}),
    ]
    users.trusted = [
        Trusted(0.1, 1, frozenset({OLD})),
        Trusted(5.0, 1, frozenset({OLD, NEW})),
        Trusted(15.0, 1, frozenset({NEW})),
    ]
    users.calm = [Calm(0.0, 30.0)]
    users.answers = [answer(3.0), answer(9.0), answer(13.0, is_allowed=False)]
    users.logins = [
        login(3.0, password="one"),  # noqa: S106
        login(9.0, password="two"),  # noqa: S106
        login(9.0, is_accepted=False, password="one"),  # noqa: S106
        login(9.0, user="reader-1", authority=OLD),
        login(20.0, is_accepted=False, user="reader-1", authority=OLD),
        login(22.5, is_accepted=False, password="two"),  # noqa: S106
    ]
    return history


def names(history: History) -> set[str]:
    return {one.name for one in check(history)}


def test_a_sound_history_has_no_anomalies() -> None:
    assert check(sound()) == []


def add_answer(*given: Any, **more: Any) -> Callable[[UserHistory], None]:
    def add(users: UserHistory) -> None:
        users.answers = sorted([*users.answers, answer(*given, **more)], key=lambda one: one.at_s)

    return add


def add_login(*given: Any, **more: Any) -> Callable[[UserHistory], None]:
    def add(users: UserHistory) -> None:
        users.logins = sorted([*users.logins, login(*given, **more)], key=lambda one: one.at_s)

    return add


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (add_answer(11.0), {"allowed-although-denied"}),
        (add_answer(13.0), {"allowed-although-denied", "late-change"}),
        (add_answer(10.52), set()),  # it may have been decided by what the broker knew before
        (add_answer(11.0, resumed_s=10.97), set()),  # the broker did not run until now
        (add_answer(11.0, asked_s=10.4), set()),  # it may have waited
        (add_answer(9.0, is_allowed=False), {"denied-although-allowed", "late-change"}),
        (add_answer(4.0, is_allowed=False), {"denied-although-allowed", "late-change"}),
        (add_answer(23.0, is_allowed=False), {"late-change"}),  # on a connection of a deleted user
        (add_answer(23.0, is_allowed=False, login_s=22.9), set()),
        (add_answer(4.0, expires_s=3.0), {"expired-login"}),
        (add_answer(4.0, expires_s=3.9), set()),  # by a clock that is too slow
        (add_login(9.0, password="one"), {"wrong-password-accepted", "late-change"}),  # noqa: S106
        (add_login(5.5, password="one"), set()),  # noqa: S106
        (
            add_login(9.0, is_accepted=False, password="two"),  # noqa: S106
            {"right-password-refused", "late-change"},
        ),
        (add_login(21.0, password="two"), {"wrong-password-accepted"}),  # noqa: S106
        (add_login(17.0, authority=OLD), {"removed-ca-accepted"}),
        (add_login(15.5, authority=OLD), set()),  # within the time after which it reads again
        (add_login(9.0, is_accepted=False, authority=NEW), {"certificate-refused"}),
        (add_login(9.0, is_accepted=False, is_valid=False, authority=NEW), set()),
        (add_login(9.0, is_valid=False, authority=NEW), {"expired-certificate-accepted"}),
        (lambda users: users.kept.append(Kept(1.0, PROCESS, "c", "p", "")), {"kept-connection"}),
        (
            lambda users: users.lost_certificates.append(LostCertificate(1.0, "reader-1", "")),
            {"lost-certificate"},
        ),
        (lambda users: users.unserved.append("reader-1"), {"user-unserved"}),
    ],
)
def test_what_is_planted_is_seen(plant: Callable[[UserHistory], None], expected: set[str]) -> None:
    history = sound()
    plant(history.users)
    assert names(history) == expected


def test_promises_hold_only_while_nothing_is_wrong() -> None:
    history = sound()
    history.users.calm = []
    add_answer(23.0, is_allowed=False)(history.users)
    assert names(history) == set()


def test_what_a_user_may_do() -> None:
    account = Account(name="a", type="tls", allowed=ALL)
    assert account.principal == "User:CN=a"
    assert account.rights == {RIGHT, ("Describe", "orders")} == implied(ALL)
    account.denied = ALL
    assert account.rights == {("Describe", "orders")}
    account = replace(account, type="scram-sha-512", passwords=["x", "y"])
    assert (account.principal, account.password) == ("User:a", "y")
