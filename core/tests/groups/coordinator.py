"""A group at a coordinator that carries out every effect at once, and lets time pass."""

from collections.abc import Iterable, Mapping
from typing import Any

from chiplog_core.groups.answers import Answer, Effect, Joined, Left, Store, Synced
from chiplog_core.groups.codes import Code
from chiplog_core.groups.limits import Limits
from chiplog_core.groups.membership import Membership
from chiplog_core.groups.requests import Identity, Join, Leaving, Sync
from chiplog_core.groups.stored import StoredGroup
from chiplog_core.model.group_status import GroupState

SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (("range", b"topics"),)
BOTH = (("range", b"topics"), ("sticky", b"topics and more"))


class Coordinator:
    """Tokens are numbers, in the order of the requests. Ids are the client's and a number."""

    def __init__(self, **limits: int) -> None:
        self.limits = Limits(**limits)
        self.now_ms = 1_000_000
        self.wall_ahead_ms = 1_700_000_000_000
        self.group = Membership("orders", self.limits, self._new_id, self.to_wall_ms)
        self.answers: dict[int, Joined | Synced | Left] = {}
        self.stored: list[StoredGroup] = []
        self.log: list[Effect] = []
        self._tokens = 0
        self._ids = 0

    def to_wall_ms(self, now_ms: int) -> int:
        return now_ms + self.wall_ahead_ms

    @property
    def wall_ms(self) -> int:
        return self.to_wall_ms(self.now_ms)

    def _new_id(self, name: str) -> str:
        self._ids += 1
        return f"{name}-{self._ids}"

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.log.append(effect)
            match effect:
                case Answer(token, answer):
                    assert isinstance(token, int)
                    assert token not in self.answers, "a request is answered once"
                    self.answers[token] = answer
                case Store(group):
                    self.stored.append(group)

    # ---- requests; `client` and `member_id` as a client has them

    def join(self, client: str = "a", member_id: str = "", **given: Any) -> int:
        token = self._token()
        asked: dict[str, Any] = {
            "client_id": client,
            "client_host": "/10.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "requires_known_member_id": False,
        }
        request = Join(member_id=member_id, **(asked | given))
        self.carry_out(self.group.join(token, request, self.now_ms))
        return token

    def sync(
        self, member_id: str, assignments: Mapping[str, bytes] | None = None, **given: Any
    ) -> int:
        token = self._token()
        asked: dict[str, Any] = {"generation": self.group.generation}
        request = Sync(member_id=member_id, assignments=assignments or {}, **(asked | given))
        self.carry_out(self.group.sync(token, request, self.now_ms))
        return token

    def leave(self, *leaving: Leaving) -> list[Code]:
        token = self._token()
        self.carry_out(self.group.leave(token, leaving, self.now_ms))
        left = self.answers[token]
        assert isinstance(left, Left)
        return [one.code for one in left.members]

    def heartbeat(self, member_id: str, generation: int | None = None, **given: Any) -> Code:
        generation = self.group.generation if generation is None else generation
        identity = Identity(member_id=member_id, generation=generation, **given)
        return self.group.heartbeat(identity, self.now_ms)

    def commit(self, member_id: str, generation: int | None = None, **given: Any) -> Code:
        generation = self.group.generation if generation is None else generation
        identity = Identity(member_id=member_id, generation=generation, **given)
        return self.group.check_commit(identity, self.now_ms)

    def commit_in_transaction(self, member_id: str, generation: int, **given: Any) -> Code:
        identity = Identity(member_id=member_id, generation=generation, **given)
        return self.group.check_transactional_commit(identity)

    # ---- answers

    def waits(self, token: int) -> bool:
        return token not in self.answers

    def joined(self, token: int) -> Joined:
        answer = self.answers[token]
        assert isinstance(answer, Joined)
        return answer

    def synced(self, token: int) -> Synced:
        answer = self.answers[token]
        assert isinstance(answer, Synced)
        return answer

    # ---- time

    def wait(self, duration_ms: int, alive: Iterable[str] = ()) -> None:
        """Let time pass; who is `alive` sends a heartbeat every second, whatever it is told."""
        alive, until_ms = tuple(alive), self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.now_ms = min(self.now_ms + 1_000, until_ms)
            for member_id in alive:
                self.heartbeat(member_id)
            self.carry_out(self.group.advance(self.now_ms))

    def restart(self) -> None:
        """Another coordinator takes over from what was stored last; nobody is answered."""
        self.group = Membership.from_stored(
            "orders", self.stored[-1], self.limits, self._new_id, self.to_wall_ms, self.now_ms
        )

    # ---- whole groups

    def joined_group(self, *clients: str, **given: Any) -> list[str]:
        """A first generation of these clients that waits for its leader, the first of them."""
        tokens = [self.join(client, **given) for client in clients]
        self.wait(2 * self.limits.initial_rebalance_delay_ms)
        assert self.group.state is GroupState.COMPLETING_REBALANCE
        return [self.joined(token).member_id for token in tokens]

    def stable_group(self, *clients: str, **given: Any) -> list[str]:
        """The same, assigned: every member has its own id as its assignment."""
        ids = self.joined_group(*clients, **given)
        self.assign(ids)
        return ids

    def assign(self, ids: list[str]) -> None:
        """All sync, the leader first, and everybody is assigned its own id."""
        for number, member_id in enumerate(ids):
            given = {} if number else {one: one.encode() for one in ids}
            assert self.synced(self.sync(member_id, given)).assignment == member_id.encode()
        assert self.group.state is GroupState.STABLE
