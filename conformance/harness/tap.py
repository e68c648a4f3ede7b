"""Tap: a TCP proxy before the gateway that cuts connections and notes what was said on them.

Owns        the listening socket, one thread per connection, the cut that is armed, the gate.
Doors       `arm_cut` from the scenario; the connection's thread applies it to the next bytes
            of the server. `release` lets those in who came back meanwhile.
Invariants  no WebSocket close frame is ever made here: what ends, ends at the TCP level.
Not here    judging: `scenario.py` compares the notes with what the mode must show.
"""
import select
import socket
import struct
import threading
import urllib.parse

from .frames import BINARY, CLOSE, TEXT, FrameReader, PayloadReader

# A connection that ends abruptly, with bytes of a frame still missing.
RESET = "reset"
# An ordinary end of TCP, with bytes of a frame still missing.
FIN = "fin"
# Reset towards the client only: the server still believes in the old socket when the client is back.
HALF_OPEN = "half-open"
CUTS = (RESET, FIN, HALF_OPEN)

POLL_SECONDS = 0.2
CHUNK_BYTES = 65536


class Link:
    """Observations of one connection."""

    def __init__(self, client_port):
        self.client_port = client_port
        self.query = {}
        # The program's name for itself, if it sends one.
        self.agent = None
        # Agreed extensions; None until the server has answered the handshake.
        self.extensions = None
        self.client_payloads = []
        self.client_close = None
        self.server_close = None
        self.text_frames = 0
        self.binary_frames = 0
        self.server_bytes = 0
        self.cut = None
        # A fault of the tap itself, or bytes that are no WebSocket: never expected.
        self.fault = None

    def sent(self, op):
        """The bodies of all payloads with this opcode that the client sent."""
        return [payload.get("d") for payload in self.client_payloads if payload.get("op") == op]


def header_fields(head):
    """The fields of an HTTP header, by their name in small letters."""
    headers = (line.partition(":") for line in head.split("\r\n")[1:])
    return {name.lower(): value.strip() for name, _, value in headers}


def close_with_reset(sock):
    """Ends a connection by RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class Tap:
    """The proxy of one run."""

    def __init__(self):
        self.links = []
        self.upstream = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(POLL_SECONDS)
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._armed = None
        self._was_cut = threading.Event()
        self._gate = threading.Event()
        self._gate.set()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._gate.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def arm_cut(self, kind):
        """The next bytes from the server are delivered in half, then the connection is cut.

        From then on whoever connects waits at the gate.
        """
        with self._lock:
            self._was_cut.clear()
            self._armed = kind

    def wait_cut(self, seconds):
        """Waits until the armed cut has happened; False if it has not in time."""
        return self._was_cut.wait(seconds)

    def release(self):
        """Opens the gate."""
        self._gate.set()

    def _accept(self):
        while not self._stopping.is_set():
            try:
                client, address = self._listener.accept()
            except TimeoutError:
                continue
            link = Link(address[1])
            thread = threading.Thread(target=self._serve, args=(client, link), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client, link):
        self._gate.wait()
        if self._stopping.is_set():
            client.close()
            return
        self.links.append(link)
        try:
            with client, socket.create_connection(self.upstream, 10) as server:
                self._pump(client, server, link)
        except Exception as error:  # noqa: BLE001: whatever it is, the scenario must hear of it
            link.fault = repr(error)

    def _pump(self, client, server, link):
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        notes = Notes(link)
        reading = [client, server]
        while reading and not self._stopping.is_set():
            for sock in select.select(reading, [], [], POLL_SECONDS)[0]:
                from_client = sock is client
                other = server if from_client else client
                try:
                    data = sock.recv(CHUNK_BYTES)
                    if data and from_client:
                        notes.from_client(data)
                    elif data:
                        notes.from_server(data)
                        if link.cut is None and self._take_cut(link, notes):
                            client.sendall(data[: max(1, len(data) // 2)])
                            if not self._cut(client, server, link):
                                return
                            reading = [server]
                            break
                    if link.cut is not None:
                        if not data:
                            return
                    elif data:
                        other.sendall(data)
                    else:
                        reading.remove(sock)
                        other.shutdown(socket.SHUT_WR)
                except OSError:
                    # One side is gone: the other learns it the same way.
                    for each in (client, server):
                        close_with_reset(each)
                    return

    def _take_cut(self, link, notes):
        """Whether this connection, once it carries frames, is the one to cut now."""
        with self._lock:
            if self._armed is None or not notes.is_open:
                return False
            link.cut, self._armed = self._armed, None
            self._gate.clear()
            return True

    def _cut(self, client, server, link):
        """Cuts; returns whether the server's side lives on."""
        if link.cut == FIN:
            client.shutdown(socket.SHUT_WR)
            server.shutdown(socket.SHUT_WR)
            client.close()
            server.close()
        else:
            close_with_reset(client)
            if link.cut == RESET:
                close_with_reset(server)
        self._was_cut.set()
        return link.cut == HALF_OPEN


class Notes:
    """Reads along both directions of a link."""

    def __init__(self, link):
        self._link = link
        self._client = FrameReader()
        self._server = FrameReader()
        self._payloads = None

    @property
    def is_open(self):
        return self._server.head is not None

    def from_client(self, data):
        for frame in self._client.feed(data):
            if frame.opcode == CLOSE:
                self._link.client_close = frame.close_code
            elif (payload := self._payloads.feed(frame)) is not None:
                self._link.client_payloads.append(payload)
        if self._payloads is None and self._client.head is not None:
            target = self._client.head.split(" ", 2)[1]
            self._link.agent = header_fields(self._client.head).get("user-agent")
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query)
            self._link.query = {key: values[0] for key, values in query.items()}
            self._payloads = PayloadReader(self._link.query.get("encoding", "json"))

    def from_server(self, data):
        link = self._link
        link.server_bytes += len(data)
        for frame in self._server.feed(data):
            link.text_frames += frame.opcode == TEXT
            link.binary_frames += frame.opcode == BINARY
            if frame.opcode == CLOSE:
                link.server_close = frame.close_code
        if link.extensions is None and self._server.head is not None:
            link.extensions = header_fields(self._server.head).get("sec-websocket-extensions", "")
