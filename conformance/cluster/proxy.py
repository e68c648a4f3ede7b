"""Proxies: TCP proxies between nodes and their servers, in a process of their own, that delay, throttle, stall and reset.

Owns        a listening port per link, the connections that pass through it, and the link's fault of the moment.
Doors       `Proxies` in the suite; the process reads one JSON command a line on stdin and answers each with one line.
Invariants  bytes of a connection keep their order; without a fault they pass at once. A stalled link loses nothing: at the end
            of the stall everything is delivered, late, as after a partition that TCP outlived.
Limits      `HELD_BYTES_MAX` per connection and direction wait; past it the proxy stops reading.
"""
import asyncio
import contextlib
import json
import pathlib
import select
import socket
import struct
import subprocess
import sys

from harness.failure import Failure

CHUNK_BYTES = 16_384
HELD_BYTES_MAX = 1 << 20
# Longer than the process takes for an answer.
ANSWER_SECONDS = 30


class Link:
    """The way from one node to one server."""

    def __init__(self, upstream_port):
        self.upstream_port = upstream_port
        self.port = None
        # Bytes that passed, both directions.
        self.passed_bytes = 0
        self.connections = set()
        self._is_open = asyncio.Event()
        self._changed = asyncio.Event()
        self.set_fault()

    def set_fault(self, delay_ms=0, bytes_per_s=0, stalled=False):
        """Replaces the fault of the moment; without arguments there is none."""
        self.delay_seconds = delay_ms / 1000
        self.bytes_per_s = bytes_per_s
        # When each direction may send again.
        self._free_at = [0.0, 0.0]
        # Ends the waits of the fault before.
        self._changed.set()
        self._changed = asyncio.Event()
        if stalled:
            self._is_open.clear()
        else:
            self._is_open.set()

    def reset_all(self):
        """Ends all connections by RST."""
        for connection in list(self.connections):
            connection.reset()

    async def serve(self):
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK_BYTES)
        self.port = server.sockets[0].getsockname()[1]

    async def _accept(self, reader, writer):
        # A new connection of a stalled link is not answered either.
        await self._is_open.wait()
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.upstream_port, limit=CHUNK_BYTES)
        except OSError:
            return reset(writer)
        connection = Connection(writer, upstream[1])
        self.connections.add(connection)
        try:
            await asyncio.gather(self._pump(reader, upstream[1], 0), self._pump(upstream[0], writer, 1))
        except OSError:
            connection.reset()
        finally:
            self.connections.discard(connection)
            connection.close()

    async def _pump(self, reader, writer, direction):
        """Passes on one direction until its end."""
        held = Held()
        sending = asyncio.create_task(self._send(held, writer, direction))
        try:
            while data := await reader.read(CHUNK_BYTES):
                await held.put(asyncio.get_running_loop().time() + self.delay_seconds, data)
            await held.put(0, b"")
            await sending
        finally:
            sending.cancel()

    async def _send(self, held, writer, direction):
        loop = asyncio.get_running_loop()
        while True:
            due, data = await held.take()
            if not data:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            await self._sleep(due - loop.time())
            await self._is_open.wait()
            if self.bytes_per_s:
                begin = max(loop.time(), self._free_at[direction])
                self._free_at[direction] = begin + len(data) / self.bytes_per_s
                await self._sleep(begin - loop.time())
            self.passed_bytes += len(data)
            writer.write(data)
            await writer.drain()


    async def _sleep(self, seconds):
        """Until the time has passed, or the link has another fault or none."""
        if seconds > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)


class Held:
    """Bytes on their way, with the time at which each piece is due."""

    def __init__(self):
        self._pieces = asyncio.Queue()
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def put(self, due, data):
        await self._has_room.wait()
        self._pieces.put_nowait((due, data))
        self._bytes += len(data)
        if self._bytes > HELD_BYTES_MAX:
            self._has_room.clear()

    async def take(self):
        due, data = await self._pieces.get()
        self._bytes -= len(data)
        if self._bytes <= HELD_BYTES_MAX:
            self._has_room.set()
        return due, data


class Connection:
    """Both sockets of one connection."""

    def __init__(self, *writers):
        self._writers = writers

    def reset(self):
        for writer in self._writers:
            reset(writer)

    def close(self):
        for writer in self._writers:
            writer.close()


def reset(writer):
    """Ends a connection by RST."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def run():
    """The process: carries out commands until stdin ends."""
    links = {}
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command = json.loads(line)
        name, do = command["link"], command["do"]
        if do == "open":
            links[name] = Link(command["upstream_port"])
            await links[name].serve()
        elif do == "fault":
            links[name].set_fault(**command["fault"])
        elif do == "reset":
            links[name].reset_all()
        link = links[name]
        print(json.dumps({"port": link.port, "bytes": link.passed_bytes, "connections": len(link.connections)}), flush=True)


class Proxies:
    """The process, as the suite sees it. Calls block for the time of one answer; one thread calls at a time."""

    def __init__(self):
        environment = {"PYTHONPATH": str(pathlib.Path(__file__).resolve().parent.parent)}
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def _do(self, link, do, **fields):
        try:
            self._process.stdin.write(json.dumps({"link": link, "do": do, **fields}) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0]:
                raise Failure(f"the proxies do not answer {do!r} of {link}")
            answer = self._process.stdout.readline()
        except OSError as error:
            raise Failure(f"the proxies have ended: {error}") from error
        if not answer:
            raise Failure("the proxies have ended")
        return json.loads(answer)

    def open(self, link, upstream_port):
        """The port at which a link to `upstream_port` listens from now on."""
        return self._do(link, "open", upstream_port=upstream_port)["port"]

    def set_fault(self, link, **fault):
        """Sets the fault of a link, or ends it."""
        self._do(link, "fault", fault=fault)

    def reset(self, link):
        """Resets the connections of a link; how many there were."""
        return self._do(link, "reset")["connections"]

    def passed_bytes(self, link):
        """Bytes that passed a link since it was opened."""
        return self._do(link, "look")["bytes"]

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


if __name__ == "__main__":
    asyncio.run(run())
