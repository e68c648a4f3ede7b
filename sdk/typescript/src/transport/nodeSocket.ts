/**
 * WebSocket client of RFC 6455 on `node:http` and `node:https`: Node 20 has none of its own. It hands over the bytes of
 * text messages as they are, so that messages nobody reads are never decoded, and offers no extension.
 *
 * Limits  a message of more than `MESSAGE_BYTES_MAX` ends the connection with 1009; the handshake may take
 *         `HANDSHAKE_MS`; a closed peer that does not close its end is cut after `LINGER_MS`.
 */

import { createHash, randomBytes } from "node:crypto";
import { request as requestHttp, type IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import type { Socket as TcpSocket } from "node:net";
import { MESSAGE_BYTES_MAX } from "../codec/compression.js";
import type { OpenSocket, Socket, SocketHandlers } from "./transport.js";

const HANDSHAKE_MS = 20_000;
const LINGER_MS = 2_000;
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

/** Cuts the peer's bytes into messages. */
class Reader {
  /** The begin of a frame, and the bytes that it, or its header, lacks. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #missing = 0;
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
      if (this.#heldBytes === 0) return this.#read(at === 0 ? bytes : bytes.subarray(at));
      const part = bytes.subarray(at, at + this.#missing);
      this.#hold(part);
      at += part.length;
      this.#missing -= part.length;
      if (this.#missing > 0) return null;
      const frame = Buffer.concat(this.#held, this.#heldBytes);
      this.#held = [];
      this.#heldBytes = 0;
      const fault = this.#read(frame);
      if (fault !== null) return fault;
    }
    return null;
  }

  #hold(part: Buffer): void {
    this.#held.push(part);
    this.#heldBytes += part.length;
  }

  /** Reads whole frames, and holds what is left. */
  #read(data: Buffer): number | null {
    let at = 0;
    for (;;) {
      const left = data.length - at;
      this.#missing = 2 - left;
      if (this.#missing > 0) break;
      const first = data[at] as number;
      const second = data[at + 1] as number;
      if (first & 0x70 || second & 0x80) return 1002;
      let size = second & 0x7f;
      let head = 2;
      if (size === 126) {
        this.#missing = 4 - left;
        if (this.#missing > 0) break;
        size = data.readUInt16BE(at + 2);
        head = 4;
      } else if (size === 127) {
        this.#missing = 10 - left;
        if (this.#missing > 0) break;
        if (data.readUInt32BE(at + 2) !== 0) return 1009;
        size = data.readUInt32BE(at + 6);
        head = 10;
      }
      if (size + this.#partsBytes > MESSAGE_BYTES_MAX) return 1009;
      this.#missing = head + size - left;
      if (this.#missing > 0) break;
      const payload = data.subarray(at + head, at + head + size);
      at += head + size;
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
    // A copy, because the socket's buffer is much larger than what is left of it.
    if (at < data.length) this.#hold(at === 0 ? data : Buffer.from(data.subarray(at)));
    return null;
  }
}

export const openNodeSocket: OpenSocket = (url: string, handlers: SocketHandlers): Socket => {
  let tcp: TcpSocket | null = null;
  let isOver = false;
  let closeFrame: { code: number; reason: string } | null = null;
  const end = (code: number, reason: string): void => {
    if (isOver) return;
    isOver = true;
    handlers.closed(code, reason);
  };
  const fail = (reason: string): void => {
    end(1006, reason);
    tcp?.destroy();
  };

  let target: URL;
  try {
    target = new URL(url);
    if (target.protocol !== "ws:" && target.protocol !== "wss:") throw new Error("it does not begin with ws:// or wss://");
  } catch (error) {
    queueMicrotask(() => end(1006, `the gateway's URL is not valid: ${String(error)}`));
    return { send() {}, close() { isOver = true; }, hidesWireBytes: false };
  }
  const isTls = target.protocol === "wss:";
  const key = randomBytes(16).toString("base64");
  const request = (isTls ? requestHttps : requestHttp)({
    host: target.hostname.replace(/^\[|\]$/g, ""),
    port: target.port || (isTls ? 443 : 80),
    path: target.pathname + target.search,
    agent: false,
    headers: { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key },
  });
  const handshakeTimer = setTimeout(() => {
    request.destroy();
    fail("the handshake took too long");
  }, HANDSHAKE_MS);
  const write = (opcode: number, payload: Uint8Array): void => {
    if (tcp?.writable) tcp.write(frame(opcode, payload));
  };
  const linger = (): void => {
    const socket = tcp;
    if (!socket) return;
    socket.end();
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  };
  const sendClose = (code: number, reason: string): void => {
    const text = Buffer.from(reason).subarray(0, 123);
    const body = Buffer.allocUnsafe(2 + text.length);
    body.writeUInt16BE(code, 0);
    text.copy(body, 2);
    write(OPCODE.close, body);
    linger();
  };

  request.on("error", (error) => {
    clearTimeout(handshakeTimer);
    fail(error.message);
  });
  request.on("response", (response: IncomingMessage) => {
    clearTimeout(handshakeTimer);
    response.destroy();
    fail(`the gateway answered HTTP ${response.statusCode ?? 0} instead of upgrading`);
  });
  request.on("upgrade", (response: IncomingMessage, socket: TcpSocket, first: Buffer) => {
    clearTimeout(handshakeTimer);
    tcp = socket;
    socket.on("error", (error) => fail(error.message));
    socket.on("close", () => end(closeFrame?.code ?? 1006, closeFrame?.reason ?? "the connection broke"));
    if (isOver) return void socket.destroy();
    const expected = createHash("sha1").update(key + ACCEPT_SUFFIX).digest("base64");
    if (response.headers["sec-websocket-accept"] !== expected) return fail("the gateway's handshake is not valid");
    socket.setNoDelay(true);
    socket.setTimeout(0);
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
    const read = (bytes: Buffer): void => {
      const fault = reader.push(bytes);
      if (fault === null || isOver) return;
      sendClose(fault, "");
      end(1006, `the gateway broke the WebSocket protocol (${fault})`);
    };
    handlers.opened();
    socket.on("data", read);
    if (first.length > 0) read(first);
  });
  request.end();

  return {
    send(data) {
      if (isOver) return;
      if (typeof data === "string") write(OPCODE.text, Buffer.from(data));
      else write(OPCODE.binary, data);
    },
    close(code, reason) {
      if (isOver) return;
      isOver = true;
      clearTimeout(handshakeTimer);
      if (tcp) sendClose(code, reason);
      else request.destroy();
    },
    hidesWireBytes: false,
  };
};
