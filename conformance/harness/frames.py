"""Frames: reads WebSocket frames and client payloads out of a byte stream.

Owns        the frame boundaries of one direction, and the words of a client's payload.
Invariants  bytes may arrive in any pieces; what was fed once is never needed again.
Not here    sockets, and the server's compressed payloads: those are for the libraries to read.
Spec        RFC 6455 section 5.2; docs/protocol/reference.md §2.
"""
import dataclasses
import json
import os
import struct
import zlib

TEXT, BINARY, CLOSE = 1, 2, 8


@dataclasses.dataclass
class Frame:
    """One frame, unmasked."""

    opcode: int
    is_last: bool
    is_deflated: bool
    payload: bytes

    @property
    def close_code(self):
        """The code of a close frame; 1005 means none, as in the RFC."""
        return struct.unpack(">H", self.payload[:2])[0] if len(self.payload) >= 2 else 1005


def client_frame(opcode, payload):
    """One masked frame, as clients must send it."""
    mask = os.urandom(4)
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    masked = bytes(byte ^ mask[i & 3] for i, byte in enumerate(payload))
    return bytes([0x80 | opcode]) + length + mask + masked


class FrameReader:
    """Splits one direction of a connection into its HTTP head and its frames."""

    def __init__(self):
        self.head = None
        self._buffer = bytearray()

    def feed(self, data):
        """Returns the frames that `data` completes."""
        self._buffer += data
        if self.head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return []
            self.head = bytes(self._buffer[:end]).decode("latin-1")
            del self._buffer[: end + 4]
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self):
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, at = buffer[1] & 0x7F, 2
        if length == 126:
            if len(buffer) < 4:
                return None
            length, at = struct.unpack(">H", buffer[2:4])[0], 4
        elif length == 127:
            if len(buffer) < 10:
                return None
            length, at = struct.unpack(">Q", buffer[2:10])[0], 10
        is_masked = buffer[1] & 0x80
        mask = bytes(buffer[at : at + 4]) if is_masked else b""
        at += 4 if is_masked else 0
        if len(buffer) < at + length:
            return None
        payload = bytes(buffer[at : at + length])
        if is_masked:
            payload = bytes(byte ^ mask[i & 3] for i, byte in enumerate(payload))
        first = buffer[0]
        del buffer[: at + length]
        return Frame(first & 0x0F, bool(first & 0x80), bool(first & 0x40), payload)


class PayloadReader:
    """Reads payloads of a client: JSON or ETF, maybe under permessage-deflate."""

    def __init__(self, encoding):
        self._decode = decode_etf if encoding == "etf" else json.loads
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        self._parts = b""
        self._is_deflated = False

    def feed(self, frame):
        """Returns the payload that `frame` completes, if it does."""
        if frame.opcode in (TEXT, BINARY):
            self._is_deflated = frame.is_deflated
        elif frame.opcode != 0:
            return None
        self._parts += frame.payload
        if not frame.is_last:
            return None
        data, self._parts = self._parts, b""
        if self._is_deflated:
            data = self._inflate.decompress(data + b"\x00\x00\xff\xff")
        return self._decode(data)


def decode_etf(data):
    """Decodes one External Term Format message of the kinds that clients send."""
    if data[:1] != b"\x83":
        raise ValueError(f"not an external term: {data[:8]!r}")
    value, end = _term(data, 1)
    if end != len(data):
        raise ValueError("bytes after the term")
    return value


def _term(data, at):
    tag, at = data[at], at + 1
    if tag == 97:
        return data[at], at + 1
    if tag == 98:
        return struct.unpack_from(">i", data, at)[0], at + 4
    if tag == 70:
        return struct.unpack_from(">d", data, at)[0], at + 8
    if tag == 110:
        size, sign = data[at], data[at + 1]
        value = int.from_bytes(data[at + 2 : at + 2 + size], "little")
        return (-value if sign else value), at + 2 + size
    if tag in (100, 118, 115, 119):
        size, at = (data[at], at + 1) if tag in (115, 119) else (struct.unpack_from(">H", data, at)[0], at + 2)
        name = data[at : at + size].decode("utf-8")
        return {"nil": None, "null": None, "true": True, "false": False}.get(name, name), at + size
    if tag == 109:
        (size,) = struct.unpack_from(">I", data, at)
        return data[at + 4 : at + 4 + size].decode("utf-8"), at + 4 + size
    if tag == 106:
        return [], at
    if tag == 108:
        (size,) = struct.unpack_from(">I", data, at)
        at += 4
        items = []
        for _ in range(size):
            item, at = _term(data, at)
            items.append(item)
        _, at = _term(data, at)
        return items, at
    if tag == 116:
        (size,) = struct.unpack_from(">I", data, at)
        at += 4
        items = {}
        for _ in range(size):
            key, at = _term(data, at)
            items[key], at = _term(data, at)
        return items, at
    raise ValueError(f"tag {tag}")
