"""Which producers may begin a transaction in a partition: those whose coordinator said so.

A leader asks the coordinator before the first append of a transaction (KIP-890). Otherwise a
batch that arrives late, after the end marker of its transaction, would begin a transaction that
nobody ends. The answer itself may be late, too: a marker that was appended after the question may
have ended the transaction that the answer is about. So a marker ends the verifications of its
producer, and the leader has to ask again.

An open transaction in the log needs no verification: its marker is still to come.
"""


class Verification:
    """One question to the coordinator about one producer in one partition."""

    __slots__ = ("is_valid", "producer_id")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.is_valid = True
        """Whether no marker of the producer was appended since."""


class Verifications:
    """The questions about one partition that are not answered yet, or whose batches are not
    appended yet."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[int, set[Verification]] = {}
        """By producer id."""

    def __len__(self) -> int:
        return sum(map(len, self._running.values()))

    def begin(self, producer_id: int) -> Verification:
        """A new verification. To be called before the coordinator is asked, with an `end`
        afterwards in any case."""
        verification = Verification(producer_id)
        self._running.setdefault(producer_id, set()).add(verification)
        return verification

    def end(self, verification: Verification) -> None:
        """The verification is not used any more. May be called twice."""
        verification.is_valid = False
        running = self._running.get(verification.producer_id)
        if running is not None:
            running.discard(verification)
            if not running:
                del self._running[verification.producer_id]

    def marker_appended(self, producer_id: int) -> None:
        """A transaction of this producer has ended here: what was verified may be about it."""
        for verification in self._running.pop(producer_id, ()):
            verification.is_valid = False

    def give_up(self) -> None:
        """This replica does not lead any more, and does not see the markers of its successor in
        time."""
        for producer_id in list(self._running):
            self.marker_appended(producer_id)
