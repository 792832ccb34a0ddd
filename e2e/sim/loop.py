"""An event loop whose time is a number: it jumps to the next timer when nothing is ready.

Every callback belongs to the simulated process that is named in its context. Callbacks of a
killed process never run, so it does not clean up, as after SIGKILL; callbacks of a paused process
wait until it is resumed. There are no threads and no I/O: functions for an executor run
immediately, and a call that needs a socket of the machine fails.
"""

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from e2e.sim.network import Network

T = TypeVar("T")
START_S = 1000.0
BLOCKED_S = 10.0
"""`ROUNDS` rounds of callbacks that compute for longer than this would block a real event loop.

It is processor time, because on a busy machine everything takes long by the wall clock, and far
more than correct code needs."""
ROUNDS = 200
"""Number of rounds after which their processor time is checked."""


class Process:
    """One simulated process on a host. The context of its callbacks refers to it."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.is_alive = True
        self.is_paused = False
        self.resumed_s = float("-inf")
        """When it ran again for the last time after a pause."""
        self.held: deque[asyncio.Handle] = deque()
        """Callbacks that became due while the process was paused or dead."""
        self.steps_left: int | None = None
        """Callbacks that still run before `on_last_step` is called; None for no such limit."""
        self.on_last_step: Callable[[], object] = lambda: None
        self.tasks: list[asyncio.Task[Any]] = []
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    def may_run(self, handle: asyncio.Handle) -> bool:
        """Whether this process may run its callback now; if not, the callback is held.

        Called only for processes that are dead, paused or near their last step.
        """
        if self.is_alive and not self.is_paused and self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left >= 0:
                return True
            self.steps_left = None
            self.held.append(handle)
            self.on_last_step()
            return False
        # Those of a dead process run when the simulation has ended, so that coroutines can end.
        self.held.append(handle)
        return False

    def spawn(self, work: Coroutine[Any, Any, T], name: str = "") -> "asyncio.Task[T]":
        """Run `work` as a part of this process."""
        loop = asyncio.get_running_loop()
        return loop.create_task(work, name=name or self.name, context=self.context.copy())


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Stuck(Exception):  # noqa: N818 - named for what it says
    """Nothing is ready and nobody waits for time to pass."""


_numbers = itertools.count()


class _Numbered:
    """Hashes by a running number instead of its address, so that sets have the same order in
    each run."""

    number: int

    def __hash__(self) -> int:
        try:
            return self.number
        except AttributeError:
            self.number = next(_numbers)
            return self.number


class _Handle(asyncio.Handle):
    """As the base class, without what only debugging needs."""

    __slots__ = ()

    def __init__(  # does not call the base class's, which looks for a debugger each time
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """As `_Handle`, for timers."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


class _Task(_Numbered, asyncio.Task[Any]): ...


class _Future(_Numbered, asyncio.Future[Any]): ...


class SimLoop(asyncio.BaseEventLoop):
    """Deterministic, as long as what runs on it is."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """(when, number, timer); the running number keeps timers of the same instant in order."""
        self.network: Network | None = None
        self.now_s = START_S
        self._spent_s = time.thread_time()
        """Processor time of this thread at the last check for blocking callbacks."""
        self.blocked: list[str] = []
        """Simulated times at which callbacks would have blocked a real event loop."""

    # -- time

    def time(self) -> float:
        return self.now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(_numbers), timer))
        return timer

    def _run_once(self) -> None:
        """Run callbacks and timers until the loop is stopped, not only once as the base class."""
        ready, timers = self._ready, self._timers
        rounds = 0
        while not self._stopping:
            while timers and timers[0][2]._cancelled:  # noqa: SLF001 - what an event loop is for
                heapq.heappop(timers)
            if not ready:
                if not timers:
                    raise Stuck("nothing is ready and nobody waits for time to pass")
                self.now_s = max(self.now_s, timers[0][0])
            while timers and timers[0][0] <= self.now_s:
                ready.append(heapq.heappop(timers)[2])
            for _ in range(len(ready)):
                self._run_handle(ready.popleft())
            rounds += 1
            if rounds % ROUNDS == 0:
                self._check_blocked()

    def _run_handle(self, handle: asyncio.Handle) -> None:
        """Run one callback, unless it is cancelled or its process is dead or paused."""
        if handle._cancelled:  # noqa: SLF001
            return
        context: Context = handle._context  # type: ignore[attr-defined]  # noqa: SLF001
        process = context.get(PROCESS)
        if (
            process is None
            or (process.is_alive and not process.is_paused and process.steps_left is None)
            or process.may_run(handle)
        ):
            try:
                context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]  # noqa: SLF001
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as the base class has it
                self.call_exception_handler({"message": "a callback failed", "exception": error})

    def _check_blocked(self) -> None:
        """Note it if the last `ROUNDS` rounds together computed for longer than `BLOCKED_S`."""
        spent_s = time.thread_time()
        if spent_s - self._spent_s > BLOCKED_S:
            self.blocked.append(f"before {self.now_s:.3f}")
        self._spent_s = spent_s

    def resume(self, process: Process) -> None:
        """Let a paused process continue with the callbacks held in the meantime, in order."""
        process.is_paused = False
        process.resumed_s = self.now_s
        self._ready.extend(process.held)
        process.held.clear()

    # -- tasks and callbacks: as the base class makes them, without what only debugging needs

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None) -> Any:
        task = _Task(coro, loop=self, name=name, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            # Keep a reference: a garbage-collected coroutine would run its `finally` blocks.
            process.tasks.append(task)
            if len(process.tasks) > 1000:
                process.tasks = [one for one in process.tasks if not one.done()]
        return task

    # -- what the machine would do

    def create_future(self) -> "asyncio.Future[Any]":
        return _Future(loop=self)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Runs the function immediately: there are no threads here."""
        answer = self.create_future()
        try:
            answer.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - handed to the caller
            answer.set_exception(error)
        return answer

    async def create_server(  # type: ignore[override]
        self, factory: Any, _host: str = "", port: int = 0, **_: Any
    ) -> Any:
        assert self.network is not None
        return self.network.listen(factory, port)

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: str = "", port: int = 0, *, ssl: Any = None, **_: Any
    ) -> Any:
        assert self.network is not None
        return await self.network.connect(factory, host, port, ssl)

    async def connect_accepted_socket(
        self, protocol_factory: Any, sock: Any, *, ssl: Any = None, **more: Any
    ) -> Any:
        """The server's side of a handshake, in a connection that the simulated network has."""
        limit_s = more["ssl_handshake_timeout"]
        return await sock.shake_hands(protocol_factory, ssl, limit_s)

    def _process_events(self, _events: object) -> None: ...

    def _write_to_self(self) -> None: ...


class SimClock:
    """The clock of one broker or operator; `skew_s` moves its wall-clock time only."""

    def __init__(self, loop: SimLoop, epoch_s: float) -> None:
        self._loop = loop
        self.skew_s = 0.0
        self._since_s = loop.now_s
        self._wall_s = epoch_s
        self._monotonic_s = loop.now_s
        """What both clocks showed at `_since_s` of the loop's time."""
        self._wall_rate = self._monotonic_rate = 1.0

    def run_at(self, wall_rate: float, monotonic_rate: float) -> None:
        """Set how many seconds of each of its two clocks pass in a simulated second."""
        passed_s = self._loop.now_s - self._since_s
        self._wall_s += passed_s * self._wall_rate
        self._monotonic_s += passed_s * self._monotonic_rate
        self._since_s = self._loop.now_s
        self._wall_rate, self._monotonic_rate = wall_rate, monotonic_rate

    def now_ms(self) -> int:
        passed_s = (self._loop.now_s - self._since_s) * self._wall_rate
        return int((self._wall_s + passed_s + self.skew_s) * 1000)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def monotonic_s(self) -> float:
        return self._monotonic_s + (self._loop.now_s - self._since_s) * self._monotonic_rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0) / self._monotonic_rate)
