"""Decompresses one stream after the other by python-zstandard. ../node/reader.js documents the format of the pipes."""
import struct
import sys

import zstandard


def main():
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    stream, message = None, b""
    while kind := source.read(1):
        if kind == b"s":
            stream, message = zstandard.ZstdDecompressor().decompressobj(), b""
        elif kind == b"p":
            (size,) = struct.unpack(">I", source.read(4))
            message += stream.decompress(source.read(size))
        else:
            sink.write(struct.pack(">I", len(message)) + message)
            sink.flush()
            message = b""


main()
