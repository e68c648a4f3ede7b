"""The one way in which a run fails, and how long it may wait."""
import time


class Failure(Exception):
    """An expectation that was not met; the text goes into the report."""


class Patience:
    """Bounds: how long one wait and one whole run may take, in seconds.

    They only say when to give up; nothing is ever judged by how fast it was.
    """

    WAIT_SECONDS = 30
    RUN_SECONDS = 240

    def __init__(self, factor=1.0):
        self.wait_seconds = self.WAIT_SECONDS * factor
        self._deadline = time.monotonic() + self.RUN_SECONDS * factor

    def next_wait(self):
        """The bound of a wait that begins now."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Failure("the run takes too long")
        return min(self.wait_seconds, left)
