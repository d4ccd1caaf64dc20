"""Signs of life for the claims in hand, from a thread with a connection of its own, so that user code that blocks the loop costs no claim.

It beats as long as a claim is in hand, also while the worker drains. What the node says of a claim that is gone, or of a cancel, is handed
to the loop. Code that holds the interpreter's lock for seconds stops this thread too.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from threading import Event, Thread
from typing import Final

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from perdure.core.errors import PerdureError, Unavailable
from perdure.wire.asker import Asker
from perdure.wire.claims_held import ClaimsHeld
from perdure.wire.faults import error_of
from perdure.wire.frames import WEBSOCKET_BYTES_MAX, from_node, single
from perdure.wire.messages import VERSION, Beat, BeatAnswer, Failed, Head, HeldClaim, Hello, Message, Welcome

PER_LIFE: Final = 10 / 3
"""So many beats fit into the time after which a claim is lost: with 10 s, one every 3 s."""
AGAIN_PER_BEAT: Final = 3
"""A beat that failed is tried again after a third of the pause between two."""
CLAIMS_MAX: Final = 1_000
"""Claims in one message."""

log: Final = logging.getLogger(__name__)


class Beats:
    """Begun when the first claim is in hand. `notify(worker, token)` tells a worker, on the loop's thread, that an attempt is to stop."""

    def __init__(self, asker: Asker, claims: ClaimsHeld, notify: Callable[[str, str], None]) -> None:
        self._asker = asker
        self._claims = claims
        self._notify = notify
        self._stopped = Event()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beating: _Connection | None = None
        self.sent = 0
        """Beats that were answered."""

    def begin(self) -> None:
        """Beat from now on. Called on the loop's thread, any number of times."""
        if self._thread is None and not self._stopped.is_set():
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._run, name="perdure beats", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Beat no more. Does not wait for the thread."""
        self._stopped.set()

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause or self._every):
            claims = self._claims.all()
            pause = 0.0
            if not claims:
                continue
            try:
                self._beat(claims)
            except (OSError, TimeoutError, WebSocketException, PerdureError) as error:
                log.debug("a beat failed: %s", error)
                pause = self._failed()
            except Exception:
                if self._loop is None or self._loop.is_closed():
                    break  # and with it whatever held the claims
                log.exception("a beat failed; it is tried again")
                pause = self._failed()
        self._failed()

    @property
    def _every(self) -> float:
        return max(self._asker.lives_for, 1_000) / 1_000_000 / PER_LIFE

    def _beat(self, claims: tuple[HeldClaim, ...]) -> None:
        if self._beating is None:
            self._beating = _Connection(self._asker, timeout=self._every)
        for at in range(0, len(claims), CLAIMS_MAX):
            answer = self._beating.beat(Beat(claims=claims[at : at + CLAIMS_MAX]))
            self.sent += 1
            if (answer.gone or answer.cancelled) and self._loop is not None:
                self._loop.call_soon_threadsafe(self._tell, answer)

    def _failed(self) -> float:
        """Let go of the connection; gives the pause until another is tried."""
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.close()
        return self._every / AGAIN_PER_BEAT

    def _tell(self, answer: BeatAnswer) -> None:
        for token in answer.gone:
            if self._claims.drop(token):
                self._notify("", token)
        for token in answer.cancelled:
            self._notify("", token)


class _Connection:
    """One connection that carries beats, used by one thread."""

    def __init__(self, asker: Asker, timeout: float) -> None:
        self._timeout = timeout
        self._inbox = from_node()
        self._n = 0
        headers = {"Authorization": f"Bearer {asker.api_key}"} if asker.api_key else None
        self._stack = ExitStack()
        opened: AbstractContextManager[ClientConnection] = connect(
            asker.address.url,
            ssl=asker.address.tls,
            additional_headers=headers,
            compression=None,
            proxy=None,
            user_agent_header=None,
            open_timeout=timeout,
            close_timeout=timeout,
            ping_interval=None,  # every beat is answered, or given up
            max_size=WEBSOCKET_BYTES_MAX,
        )
        self._wire = self._stack.enter_context(opened)
        try:
            self._asked(Hello(version=VERSION, session=asker.session, beats=True), Welcome)
        except BaseException:
            self.close()
            raise

    def beat(self, beat: Beat) -> BeatAnswer:
        """Send a beat; gives what the node says to it."""
        answer = self._asked(beat, BeatAnswer)
        assert isinstance(answer, BeatAnswer)
        return answer

    def _asked(self, message: Message, kind: type[Message]) -> Message:
        self._n += 1
        self._wire.send(single(Head(n=self._n), message))
        while True:
            data = self._wire.recv(timeout=self._timeout, decode=False)
            for heard in self._inbox.take(data)[1]:
                if isinstance(heard, Failed):
                    raise error_of(heard.error)
                if isinstance(heard, kind):
                    return heard
                raise Unavailable(f"the node said {type(heard).__name__} to a beat")

    def close(self) -> None:
        self._stack.close()
