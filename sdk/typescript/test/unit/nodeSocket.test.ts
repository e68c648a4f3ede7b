import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { openNodeSocket } from "../../src/transport/nodeSocket.js";

const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** A frame of a server: not masked. */
function frame(first: number, payload: Buffer): Buffer {
  const size = payload.length;
  if (size < 126) return Buffer.concat([Uint8Array.of(first, size), payload]);
  const head = Buffer.alloc(size < 65_536 ? 4 : 10);
  head[0] = first;
  head[1] = size < 65_536 ? 126 : 127;
  if (size < 65_536) head.writeUInt16BE(size, 2);
  else head.writeBigUInt64BE(BigInt(size), 2);
  return Buffer.concat([head, payload]);
}

/** Sizes of the messages that arrive when the bytes are written in pieces of this size, each after the one before. */
async function received(bytes: Buffer, pieceBytes: number): Promise<string[]> {
  const server = createServer();
  server.on("upgrade", (request, socket) => {
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${ACCEPT_SUFFIX}`).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on("error", () => {});
    const next = (at: number): void => {
      if (at < bytes.length) socket.write(bytes.subarray(at, at + pieceBytes), () => setImmediate(next, at + pieceBytes));
    };
    next(0);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const digests: string[] = [];
  await new Promise<void>((resolve) => {
    openNodeSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/`, {
      opened() {},
      message: (data, headerBytes) => void digests.push(`${data.length} ${headerBytes} ${createHash("sha1").update(data).digest("hex")}`),
      closed: () => resolve(),
    });
  });
  server.close();
  server.closeAllConnections();
  return digests;
}

test("frames of all sizes, in pieces of all sizes", async () => {
  const payload = (size: number): Buffer => Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 7 + size) & 0xff));
  const sizes = [0, 1, 125, 126, 2, 65_535, 65_536, 300_000, 3];
  const frames = sizes.map((size) => frame(0x82, payload(size)));
  const fragments = [frame(0x02, payload(10)), frame(0x89, payload(5)), frame(0x00, payload(70_000)), frame(0x80, payload(1))];
  const close = frame(0x88, Buffer.from([0x03, 0xe8]));
  const whole = Buffer.concat([...frames, ...fragments, close]);
  const digest = (data: Buffer): string => createHash("sha1").update(data).digest("hex");
  const expected = sizes.map((size, at) => `${size} ${(frames[at] as Buffer).length - size} ${digest(payload(size))}`);
  expected.push(`${70_011} ${2 + 10 + 2} ${digest(Buffer.concat([payload(10), payload(70_000), payload(1)]))}`);
  for (const pieceBytes of [37, 1_000, 65_536, 1_000_000]) assert.deepEqual(await received(whole, pieceBytes), expected, `pieces of ${pieceBytes}`);
  const small = Buffer.concat([...frames.slice(0, 5), close]);
  assert.deepEqual(await received(small, 1), expected.slice(0, 5));
});
