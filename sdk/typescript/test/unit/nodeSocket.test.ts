import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket as TcpSocket } from "node:net";
import { test } from "node:test";
import { createServer as createTlsServer } from "node:tls";
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

/** What becomes of a connection to a server that passes each request for an upgrade, with the digest it expects, to `answer`. */
async function outcome(server: Server, url: (port: number) => string, answer: (socket: TcpSocket, accept: string) => void): Promise<string[]> {
  server.on("setSecureContext" in server ? "secureConnection" : "connection", (socket: TcpSocket) => {
    socket.on("error", () => {});
    socket.once("data", (request) => {
      const key = /^sec-websocket-key: (.*)\r$/im.exec(request.toString())?.[1] ?? "";
      answer(socket, createHash("sha1").update(key + ACCEPT_SUFFIX).digest("base64"));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const seen: string[] = [];
  await new Promise<void>((resolve) => {
    openNodeSocket(url((server.address() as AddressInfo).port), {
      opened: () => void seen.push("opened"),
      message: (data) => void seen.push(`message ${Buffer.from(data as Uint8Array).toString()}`),
      closed: (code, reason) => resolve(void seen.push(`closed ${code} ${reason}`)),
    });
  });
  server.close();
  return seen;
}

const upgraded = (accept: string): string => `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nsec-websocket-ACCEPT:${accept} \r\n\r\n`;
const plain = (port: number): string => `ws://127.0.0.1:${port}/?v=10`;
const hello = frame(0x82, Buffer.from("hello"));
const bye = frame(0x88, Buffer.from([0x0f, 0xa1]));

test("answers to the handshake", async () => {
  const cases: [name: string, answer: (accept: string) => string | Buffer, expected: string[]][] = [
    ["frames behind the head", (accept) => Buffer.concat([Buffer.from(upgraded(accept)), hello, bye]), ["opened", "message hello", "closed 4001 "]],
    ["another digest", () => upgraded("x"), ["closed 1006 the gateway's handshake is not valid"]],
    ["no digest", () => "HTTP/1.1 101 x\r\n\r\n", ["closed 1006 the gateway's handshake is not valid"]],
    ["no HTTP", () => "SSH-2.0-x\r\n\r\n", ["closed 1006 the gateway's handshake is not valid"]],
    ["a refusal", () => "HTTP/1.1 503 Busy\r\n\r\n", ["closed 1006 the gateway answered HTTP 503 instead of upgrading"]],
    ["an endless head", () => `HTTP/1.1 101 x\r\na: ${"x".repeat(20_000)}`, ["closed 1006 the gateway's handshake is too long"]],
  ];
  for (const [name, answer, expected] of cases) {
    assert.deepEqual(await outcome(createTcpServer(), plain, (socket, accept) => void socket.write(answer(accept))), expected, name);
  }
  const broken = await outcome(createTcpServer(), plain, (socket) => void socket.destroy());
  assert.match(broken.join(), /^closed 1006 /);
});

test("TLS: frames arrive, and a self-signed certificate is refused", async () => {
  const pem = readFileSync(new URL("../../../test/support/localhost.pem", import.meta.url));
  const open = (): Promise<string[]> => outcome(
    createTlsServer({ key: pem, cert: pem }),
    (port) => `wss://localhost:${port}/`,
    (socket, accept) => void socket.write(Buffer.concat([Buffer.from(upgraded(accept)), frame(0x82, Buffer.alloc(100_000, "a")), bye])),
  );
  assert.deepEqual(await open(), ["closed 1006 self-signed certificate"]);
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  try {
    assert.deepEqual(await open(), ["opened", `message ${"a".repeat(100_000)}`, "closed 4001 "]);
  } finally {
    delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  }
});
