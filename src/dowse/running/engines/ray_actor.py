"""A worker as Ray has it: an actor, which attacks in a thread of its own."""

import threading
from queue import SimpleQueue

from dowse.running.engines.messages import Failed, FromWorker, pack
from dowse.running.engines.pool_worker import prepare, serve


class Attacker:
    """The actor: attacks in a thread, so that each call of `step` can bring a reply and take away the next message.

    Args:
        folder: The runner's working folder.
        path: Where the runner finds modules.
        threads: Torch threads.
    """

    def __init__(self, folder: str, path: list[str], threads: int) -> None:
        self._said: SimpleQueue[bytes] = SimpleQueue()
        self._replies: SimpleQueue[bytes] = SimpleQueue()
        warned = prepare(folder=folder, path=path, threads=threads)
        threading.Thread(target=self._live, args=(warned,), daemon=True).start()

    def step(self, reply: bytes | None) -> bytes:
        """Hand in the reply to the last message, and wait for the next one."""
        if reply is not None:
            self._replies.put(reply)
        return self._said.get()

    def _live(self, warned: list[str]) -> None:
        def exchange(message: bytes) -> bytes:
            self._said.put(message)
            return self._replies.get()

        try:
            serve(exchange, warned)
        finally:
            self._said.put(pack(FromWorker(Failed("its thread ended", input_error=False))))
