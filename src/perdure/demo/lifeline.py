"""How a process of the demo learns that whoever started it is gone, however that died: its standard input ends."""

import os
import threading
from collections.abc import Callable


def when_input_ends(then: Callable[[], object]) -> None:
    """Call `then`, on a thread of its own, when standard input ends. Does not keep the process alive."""

    def watch() -> None:
        # The descriptor itself: a daemon thread inside sys.stdin would hold its lock while the interpreter shuts down.
        while os.read(0, 4096):
            pass
        then()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
