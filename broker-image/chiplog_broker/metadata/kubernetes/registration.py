"""From an incarnation to a session: the process is admitted, admitted again, or replaced.

The operator admits a process by writing its incarnation and a new session to the Broker's spec. A
process that was fenced because of its Lease, and renews the Lease again, is admitted again with the
next session. A process that finds another incarnation in the spec has been replaced and must end.
The exception is an object that does not know this process's session: it is an older copy, from a
restored backup, and the incarnation in it is an earlier one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from chiplog_broker.metadata.kubernetes.process import Process
from chiplog_core.ids import NEVER_ADMITTED, Session
from chiplog_core.model.broker import Broker

Remember = Callable[[Session], Awaitable[None]]
Entered = Callable[[Session], None]


class Registration:
    """The session of this process, as the operator assigns it."""

    def __init__(
        self, process: Process, used: Session, remember: Remember, entered: Entered
    ) -> None:
        """`used` is the last session of this data directory: it and earlier ones have ended.

        `remember` makes a session durable; `entered` is called when it takes effect.
        """
        self._process = process
        self._remember = remember
        self._entered = entered
        self._used = used
        self._assigned_session = NEVER_ADMITTED
        self._new_session = asyncio.Event()
        self._has_registered = False
        self.session = NEVER_ADMITTED
        """The present session, which is durable on this disk; 0 until admitted."""
        self.admitted = asyncio.Event()
        self.deposed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def observed(self, broker: Broker) -> None:
        """This broker's own object has changed: accept a new session, or find out that another
        process has replaced this one."""
        if broker.spec.session < self._assigned_session:
            # The object is an older copy. The status is written again, with the present session.
            return
        if broker.spec.admitted_incarnation == self._process.incarnation:
            if broker.spec.session > max(self._assigned_session, self._used):
                self._assigned_session = broker.spec.session
                self._new_session.set()
        elif self._assigned_session != NEVER_ADMITTED:
            self._depose("another process was admitted as this broker")
        if broker.status.incarnation == self._process.incarnation:
            self._has_registered = True
        elif self._has_registered:
            self._depose("another process has registered as this broker")

    async def run(self) -> None:
        """Accept every session that the operator assigns, until cancelled."""
        while True:
            await self._new_session.wait()
            self._new_session.clear()
            session = self._assigned_session
            await self._remember(session)
            self.session = session
            self._entered(session)
            self.admitted.set()

    def _depose(self, why: str) -> None:
        """End this process with this reason; only the first reason counts."""
        if not self.deposed.done():
            self.deposed.set_result(why)
