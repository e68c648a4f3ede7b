"""Decoder: a program that decompresses by a library that nobody here wrote.

Owns        the process and both of its pipes; one stream at a time.
Invariants  each message must come out whole at its end, whatever pieces it went in with.
Spec        ../readers/node/reader.js.
"""
import random
import struct
import subprocess

from .failure import Failure

PIECES_MAX = 3


class Decoder:
    """A running reader program, or nothing at all for connections without compression."""

    def __init__(self, command, environment, log, seed):
        self._pieces = random.Random(seed)
        self._log = open(log, "wb")
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )

    def close(self):
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()

    def begin(self):
        """A new connection: a new stream."""
        self._process.stdin.write(b"s")

    def decode(self, message):
        """Content of one server message. Splits its bytes at random, as streams may be split."""
        cuts = sorted(self._pieces.randrange(len(message) + 1) for _ in range(self._pieces.randrange(PIECES_MAX)))
        pipe = self._process.stdin
        for start, end in zip([0, *cuts], [*cuts, len(message)]):
            if end > start:
                pipe.write(b"p" + struct.pack(">I", end - start) + message[start:end])
        pipe.write(b"e")
        pipe.flush()
        (size,) = struct.unpack(">I", self._read(4))
        return self._read(size)

    def _read(self, size):
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise Failure("the reader has ended")
        return data
