/**
 * WebSocket client of RFC 6455 on `node:net` and `node:tls`: Node 20 has none of its own. It hands over the bytes of text
 * messages as they are, so that messages nobody reads are never decoded, and offers no extension. A connection reads into
 * one buffer, so that a read allocates nothing and passes no stream.
 *
 * Limits  a message of more than `MESSAGE_BYTES_MAX` ends the connection with 1009; the handshake may take
 *         `HANDSHAKE_MS`, and its answer `HEAD_BYTES_MAX`; a closed peer that does not close its end is cut after
 *         `LINGER_MS`.
 */

import { createHash, randomBytes } from "node:crypto";
import { connect as connectTcp, isIP, type Socket as TcpSocket } from "node:net";
import { connect as connectTls } from "node:tls";
import { MESSAGE_BYTES_MAX } from "../codec/compression.js";
import type { OpenSocket, Socket, SocketHandlers } from "./transport.js";

const HANDSHAKE_MS = 20_000;
const LINGER_MS = 2_000;
const HEAD_BYTES_MAX = 16 * 1024;
const READ_BYTES = 64 * 1024;
const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** A frame of a client: masked. */
function frame(opcode: number, payload: Uint8Array): Buffer {
  const size = payload.length;
  const head = size < 126 ? 2 : size < 65_536 ? 4 : 10;
  const out = Buffer.allocUnsafe(head + 4 + size);
  out[0] = 0x80 | opcode;
  if (head === 2) out[1] = 0x80 | size;
  else if (head === 4) {
    out[1] = 0x80 | 126;
    out.writeUInt16BE(size, 2);
  } else {
    out[1] = 0x80 | 127;
    out.writeBigUInt64BE(BigInt(size), 2);
  }
  const mask = randomBytes(4);
  mask.copy(out, head);
  for (let i = 0; i < size; i += 1) out[head + 4 + i] = (payload[i] as number) ^ (mask[i & 3] as number);
  return out;
}

/** Cuts the peer's bytes into messages. It copies what it keeps. */
class Reader {
  /** A frame that has not arrived as a whole, or its header; `#begunBytes` of it are there. */
  #begun = Buffer.alloc(0);
  #begunBytes = 0;
  #parts: Buffer[] = [];
  #partsBytes = 0;
  #isFragmented = false;
  #headerBytes = 0;
  readonly #onMessage: (data: Buffer, headerBytes: number) => void;
  readonly #onControl: (opcode: number, payload: Buffer) => void;

  constructor(onMessage: (data: Buffer, headerBytes: number) => void, onControl: (opcode: number, payload: Buffer) => void) {
    this.#onMessage = onMessage;
    this.#onControl = onControl;
  }

  /** The close code for a peer that broke the protocol; null if all is well. */
  push(bytes: Buffer): number | null {
    let at = 0;
    while (at < bytes.length) {
      if (this.#begunBytes === 0) return this.#read(at === 0 ? bytes : bytes.subarray(at));
      const copied = bytes.copy(this.#begun, this.#begunBytes, at);
      at += copied;
      this.#begunBytes += copied;
      if (this.#begunBytes < this.#begun.length) return null;
      this.#begunBytes = 0;
      const fault = this.#read(this.#begun);
      if (fault !== null) return fault;
    }
    return null;
  }

  /** Reads whole frames, and copies the begin of the next. */
  #read(data: Buffer): number | null {
    let at = 0;
    /** Of the next frame, or of its header. */
    let bytes: number;
    for (;;) {
      const left = data.length - at;
      bytes = 2;
      if (left < bytes) break;
      const first = data[at] as number;
      const second = data[at + 1] as number;
      if (first & 0x70 || second & 0x80) return 1002;
      let size = second & 0x7f;
      let head = 2;
      if (size === 126) {
        bytes = 4;
        if (left < bytes) break;
        size = data.readUInt16BE(at + 2);
        head = 4;
      } else if (size === 127) {
        bytes = 10;
        if (left < bytes) break;
        if (data.readUInt32BE(at + 2) !== 0) return 1009;
        size = data.readUInt32BE(at + 6);
        head = 10;
      }
      if (size + this.#partsBytes > MESSAGE_BYTES_MAX) return 1009;
      bytes = head + size;
      if (left < bytes) break;
      const payload = data.subarray(at + head, at + bytes);
      at += bytes;
      const opcode = first & 0x0f;
      const isLast = (first & 0x80) !== 0;
      if (opcode >= OPCODE.close) {
        if (!isLast || size > 125) return 1002;
        this.#onControl(opcode, payload);
        continue;
      }
      if (opcode > OPCODE.binary || (opcode === OPCODE.continuation) !== this.#isFragmented) return 1002;
      if (opcode !== OPCODE.continuation) this.#headerBytes = 0;
      this.#headerBytes += head;
      if (isLast && !this.#isFragmented) {
        this.#onMessage(payload, this.#headerBytes);
        continue;
      }
      this.#isFragmented = !isLast;
      this.#parts.push(Buffer.from(payload));
      this.#partsBytes += size;
      if (isLast) {
        const whole = Buffer.concat(this.#parts);
        this.#parts = [];
        this.#partsBytes = 0;
        this.#onMessage(whole, this.#headerBytes);
      }
    }
    if (at === data.length) return null;
    const next = Buffer.allocUnsafe(bytes);
    this.#begunBytes = data.copy(next, 0, at);
    this.#begun = next;
    return null;
  }
}

/** Where a handshake goes, and what it says. */
interface Handshake {
  readonly isTls: boolean;
  readonly host: string;
  readonly port: number;
  readonly request: string;
  /** What the answer has to prove. */
  readonly accept: string;
}

/** Throws if the URL is not one of a WebSocket. */
function handshakeOf(url: string): Handshake {
  const { protocol, hostname, host, port, pathname, search } = new URL(url);
  if (protocol !== "ws:" && protocol !== "wss:") throw new Error("it does not begin with ws:// or wss://");
  const isTls = protocol === "wss:";
  const key = randomBytes(16).toString("base64");
  const lines = [
    `GET ${pathname}${search} HTTP/1.1`, `Host: ${host}`, "Connection: Upgrade", "Upgrade: websocket",
    "Sec-WebSocket-Version: 13", `Sec-WebSocket-Key: ${key}`,
  ];
  return {
    isTls,
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port ? Number(port) : isTls ? 443 : 80,
    request: `${lines.join("\r\n")}\r\n\r\n`,
    accept: createHash("sha1").update(key + ACCEPT_SUFFIX).digest("base64"),
  };
}

/** Connects, and calls `read` with the bytes of each read; they are valid until it returns. */
function connect({ isTls, host, port }: Handshake, connected: () => void, read: (bytes: Buffer) => void): TcpSocket {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  const onread = {
    buffer,
    callback(size: number): boolean {
      read(buffer.subarray(0, size));
      return true;
    },
  };
  const options = { host, port, onread };
  if (!isTls) return connectTcp(options, connected);
  return connectTls({ ...options, servername: isIP(host) ? "" : host, ALPNProtocols: ["http/1.1"] }, connected);
}

/** Collects the answer to a handshake. */
class HandshakeAnswer {
  #bytes = Buffer.alloc(0);
  readonly #accept: string;

  constructor(accept: string) {
    this.#accept = accept;
  }

  /** The bytes behind the answer; null until it is complete. Throws if the connection was not upgraded. */
  push(bytes: Buffer): Buffer | null {
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
    const size = this.#bytes.indexOf("\r\n\r\n");
    if (size > HEAD_BYTES_MAX || (size < 0 && this.#bytes.length > HEAD_BYTES_MAX)) throw new Error("the gateway's handshake is too long");
    if (size < 0) return null;
    const [first = "", ...headers] = this.#bytes.toString("latin1", 0, size).split("\r\n");
    const status = /^HTTP\/1\.1 (\d{3})(?: |$)/.exec(first)?.[1];
    if (status !== undefined && status !== "101") throw new Error(`the gateway answered HTTP ${status} instead of upgrading`);
    const accepts = headers.some((line) => {
      const colon = line.indexOf(":");
      return line.slice(0, colon).toLowerCase() === "sec-websocket-accept" && line.slice(colon + 1).trim() === this.#accept;
    });
    if (status === undefined || !accepts) throw new Error("the gateway's handshake is not valid");
    return this.#bytes.subarray(size + 4);
  }
}

export const openNodeSocket: OpenSocket = (url: string, handlers: SocketHandlers): Socket => {
  let isOver = false;
  let closeFrame: { code: number; reason: string } | null = null;
  const end = (code: number, reason: string): void => {
    if (isOver) return;
    isOver = true;
    handlers.closed(code, reason);
  };

  let handshake: Handshake;
  try {
    handshake = handshakeOf(url);
  } catch (error) {
    queueMicrotask(() => end(1006, `the gateway's URL is not valid: ${String(error)}`));
    return { send() {}, close() { isOver = true; }, hidesWireBytes: false };
  }

  /** Null once the connection is a WebSocket. */
  let answer: HandshakeAnswer | null = new HandshakeAnswer(handshake.accept);
  const fail = (reason: string): void => {
    end(1006, reason);
    tcp.destroy();
  };
  const write = (opcode: number, payload: Uint8Array): void => {
    if (tcp.writable) tcp.write(frame(opcode, payload));
  };
  const linger = (): void => {
    tcp.end();
    setTimeout(() => tcp.destroy(), LINGER_MS).unref();
  };
  const sendClose = (code: number, reason: string): void => {
    const text = Buffer.from(reason).subarray(0, 123);
    const body = Buffer.allocUnsafe(2 + text.length);
    body.writeUInt16BE(code, 0);
    text.copy(body, 2);
    write(OPCODE.close, body);
    linger();
  };

  const reader = new Reader(
    (data, headerBytes) => {
      if (!isOver) handlers.message(data, headerBytes);
    },
    (opcode, payload) => {
      if (opcode === OPCODE.ping) write(OPCODE.pong, payload);
      if (opcode !== OPCODE.close) return;
      const code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
      closeFrame = { code, reason: payload.toString("utf8", 2) };
      write(OPCODE.close, payload.subarray(0, 2));
      linger();
      end(closeFrame.code, closeFrame.reason);
    },
  );
  const readFrames = (bytes: Buffer): void => {
    const fault = reader.push(bytes);
    if (fault === null || isOver) return;
    sendClose(fault, "");
    end(1006, `the gateway broke the WebSocket protocol (${fault})`);
  };
  const readAnswer = (bytes: Buffer): void => {
    let first: Buffer | null;
    try {
      first = (answer as HandshakeAnswer).push(bytes);
    } catch (error) {
      return fail((error as Error).message);
    }
    if (!first) return;
    answer = null;
    clearTimeout(timer);
    handlers.opened();
    readFrames(first);
  };

  const timer = setTimeout(() => fail("the handshake took too long"), HANDSHAKE_MS);
  const tcp = connect(handshake, () => void tcp.write(handshake.request), (bytes) => {
    if (isOver) return;
    if (answer) readAnswer(bytes);
    else readFrames(bytes);
  });
  tcp.setNoDelay(true);
  // Node describes several failed addresses by a code only.
  tcp.on("error", (error: NodeJS.ErrnoException) => fail(error.message || `cannot connect (${error.code ?? "unknown"})`));
  tcp.on("close", () => {
    clearTimeout(timer);
    end(closeFrame?.code ?? 1006, closeFrame?.reason ?? "the connection broke");
  });

  return {
    send(data) {
      if (isOver) return;
      if (typeof data === "string") write(OPCODE.text, Buffer.from(data));
      else write(OPCODE.binary, data);
    },
    close(code, reason) {
      if (isOver) return;
      isOver = true;
      if (answer) tcp.destroy();
      else sendClose(code, reason);
    },
    hidesWireBytes: false,
  };
};
