"""Tests of the proxies."""
import contextlib
import pathlib
import socket
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from proxy import Proxies  # noqa: E402

# Of timers on a busy machine.
EARLY_SECONDS = 0.02


class Echo:
    """A server that sends back what comes."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @staticmethod
    def _serve(connection):
        with connection, contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65_536):
                connection.sendall(data)

    def close(self):
        self._listener.close()


class ProxyCase(unittest.TestCase):
    def setUp(self):
        self.echo, self.proxies = Echo(), Proxies()
        self.addCleanup(self.echo.close)
        self.addCleanup(self.proxies.kill)
        port = self.proxies.open("link", self.echo.port)
        self.client = socket.create_connection(("127.0.0.1", port), 10)
        self.addCleanup(self.client.close)
        self.assertEqual(self.there_and_back(b"hello")[0], b"hello")

    def there_and_back(self, data):
        """The bytes that came back, and the time of the way."""
        begun = time.monotonic()
        self.client.sendall(data)
        back = self.receive(len(data))
        return back, time.monotonic() - begun

    def receive(self, count):
        """The next `count` bytes. The socket waits for each piece for ten seconds at most."""
        back = b""
        while len(back) < count:
            piece = self.client.recv(65_536)
            self.assertNotEqual(piece, b"", f"the connection ended after {len(back)} of {count} bytes")
            back += piece
        return back

    def test_a_delay_applies_to_each_direction_and_ends(self):
        self.proxies.set_fault("link", delay_ms=150)
        back, seconds = self.there_and_back(b"late")
        self.assertEqual(back, b"late")
        self.assertGreaterEqual(seconds, 0.3 - EARLY_SECONDS)
        self.proxies.set_fault("link")
        # One way may meet a busy machine; twenty do not.
        self.assertLess(min(self.there_and_back(b"soon")[1] for _ in range(20)), 0.3)

    def test_throttled_bytes_take_their_time_and_keep_their_order(self):
        data = bytes(range(256)) * 400
        self.proxies.set_fault("link", bytes_per_s=200_000)
        back, seconds = self.there_and_back(data)
        self.assertEqual(back, data)
        # The last piece has left when its time begins.
        self.assertGreaterEqual(seconds, (len(data) - 65_536) / 200_000)

    def test_the_end_of_a_throttle_lets_everything_pass(self):
        data = bytes(200_000)
        self.proxies.set_fault("link", bytes_per_s=2_000)
        self.client.sendall(data)
        self.proxies.set_fault("link")
        begun = time.monotonic()
        self.receive(len(data))
        self.assertLess(time.monotonic() - begun, 5)

    def test_a_stalled_link_delivers_everything_at_its_end(self):
        self.proxies.set_fault("link", stalled=True)
        self.client.sendall(b"in the stall")
        self.client.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            self.client.recv(100)
        self.proxies.set_fault("link")
        self.client.settimeout(10)
        self.assertEqual(self.client.recv(100), b"in the stall")

    def test_a_reset_ends_the_connection(self):
        self.assertEqual(self.proxies.reset("link"), 1)
        with self.assertRaises(ConnectionResetError):
            self.client.recv(100)

    def test_bytes_are_counted(self):
        before = self.proxies.passed_bytes("link")
        self.there_and_back(b"x" * 1000)
        self.assertEqual(self.proxies.passed_bytes("link") - before, 2000)


if __name__ == "__main__":
    unittest.main()
