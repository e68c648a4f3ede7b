/**
 * WebSocket client of RFC 6455 on `node:http` and `node:https`: Node 20 has none of its own. It hands over the bytes of
 * text messages as they are, so that messages nobody reads are never decoded, and offers no extension.
 *
 * Limits  a message of more than `MESSAGE_BYTES_MAX` ends the connection with 1009; the handshake may take
 *         `HANDSHAKE_MS`; a closed peer that does not close its end is cut after `LINGER_MS`.
 */
import { createHash, randomBytes } from "node:crypto";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { MESSAGE_BYTES_MAX } from "../codec/compression.js";
const HANDSHAKE_MS = 20_000;
const LINGER_MS = 2_000;
const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 };
const EMPTY = Buffer.alloc(0);
/** A frame of a client: masked. */
function frame(opcode, payload) {
    const size = payload.length;
    const head = size < 126 ? 2 : size < 65_536 ? 4 : 10;
    const out = Buffer.allocUnsafe(head + 4 + size);
    out[0] = 0x80 | opcode;
    if (head === 2)
        out[1] = 0x80 | size;
    else if (head === 4) {
        out[1] = 0x80 | 126;
        out.writeUInt16BE(size, 2);
    }
    else {
        out[1] = 0x80 | 127;
        out.writeBigUInt64BE(BigInt(size), 2);
    }
    const mask = randomBytes(4);
    mask.copy(out, head);
    for (let i = 0; i < size; i += 1)
        out[head + 4 + i] = payload[i] ^ mask[i & 3];
    return out;
}
/** Cuts the peer's bytes into messages. */
class Reader {
    #held = EMPTY;
    #parts = [];
    #partsBytes = 0;
    #isFragmented = false;
    #headerBytes = 0;
    #onMessage;
    #onControl;
    constructor(onMessage, onControl) {
        this.#onMessage = onMessage;
        this.#onControl = onControl;
    }
    /** The close code for a peer that broke the protocol; null if all is well. */
    push(bytes) {
        let data = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
        let at = 0;
        for (;;) {
            const left = data.length - at;
            if (left < 2)
                break;
            const first = data[at];
            const second = data[at + 1];
            if (first & 0x70 || second & 0x80)
                return 1002;
            let size = second & 0x7f;
            let head = 2;
            if (size === 126) {
                if (left < 4)
                    break;
                size = data.readUInt16BE(at + 2);
                head = 4;
            }
            else if (size === 127) {
                if (left < 10)
                    break;
                if (data.readUInt32BE(at + 2) !== 0)
                    return 1009;
                size = data.readUInt32BE(at + 6);
                head = 10;
            }
            if (size + this.#partsBytes > MESSAGE_BYTES_MAX)
                return 1009;
            if (left < head + size)
                break;
            const payload = data.subarray(at + head, at + head + size);
            at += head + size;
            const opcode = first & 0x0f;
            const isLast = (first & 0x80) !== 0;
            if (opcode >= OPCODE.close) {
                if (!isLast || size > 125)
                    return 1002;
                this.#onControl(opcode, payload);
                continue;
            }
            if (opcode > OPCODE.binary || (opcode === OPCODE.continuation) !== this.#isFragmented)
                return 1002;
            if (opcode !== OPCODE.continuation)
                this.#headerBytes = 0;
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
        this.#held = at === data.length ? EMPTY : at === 0 ? data : Buffer.from(data.subarray(at));
        return null;
    }
}
export const openNodeSocket = (url, handlers) => {
    let tcp = null;
    let isOver = false;
    let closeFrame = null;
    const end = (code, reason) => {
        if (isOver)
            return;
        isOver = true;
        handlers.closed(code, reason);
    };
    const fail = (reason) => {
        end(1006, reason);
        tcp?.destroy();
    };
    let target;
    try {
        target = new URL(url);
        if (target.protocol !== "ws:" && target.protocol !== "wss:")
            throw new Error("it does not begin with ws:// or wss://");
    }
    catch (error) {
        queueMicrotask(() => end(1006, `the gateway's URL is not valid: ${String(error)}`));
        return { send() { }, close() { isOver = true; }, hidesWireBytes: false };
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
    const write = (opcode, payload) => {
        if (tcp?.writable)
            tcp.write(frame(opcode, payload));
    };
    const linger = () => {
        const socket = tcp;
        if (!socket)
            return;
        socket.end();
        setTimeout(() => socket.destroy(), LINGER_MS).unref();
    };
    const sendClose = (code, reason) => {
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
    request.on("response", (response) => {
        clearTimeout(handshakeTimer);
        response.destroy();
        fail(`the gateway answered HTTP ${response.statusCode ?? 0} instead of upgrading`);
    });
    request.on("upgrade", (response, socket, first) => {
        clearTimeout(handshakeTimer);
        tcp = socket;
        socket.on("error", (error) => fail(error.message));
        socket.on("close", () => end(closeFrame?.code ?? 1006, closeFrame?.reason ?? "the connection broke"));
        if (isOver)
            return void socket.destroy();
        const expected = createHash("sha1").update(key + ACCEPT_SUFFIX).digest("base64");
        if (response.headers["sec-websocket-accept"] !== expected)
            return fail("the gateway's handshake is not valid");
        socket.setNoDelay(true);
        socket.setTimeout(0);
        const reader = new Reader((data, headerBytes) => {
            if (!isOver)
                handlers.message(data, headerBytes);
        }, (opcode, payload) => {
            if (opcode === OPCODE.ping)
                write(OPCODE.pong, payload);
            if (opcode !== OPCODE.close)
                return;
            const code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
            closeFrame = { code, reason: payload.toString("utf8", 2) };
            write(OPCODE.close, payload.subarray(0, 2));
            linger();
            end(closeFrame.code, closeFrame.reason);
        });
        const read = (bytes) => {
            const fault = reader.push(bytes);
            if (fault === null || isOver)
                return;
            sendClose(fault, "");
            end(1006, `the gateway broke the WebSocket protocol (${fault})`);
        };
        handlers.opened();
        socket.on("data", read);
        if (first.length > 0)
            read(first);
    });
    request.end();
    return {
        send(data) {
            if (isOver)
                return;
            if (typeof data === "string")
                write(OPCODE.text, Buffer.from(data));
            else
                write(OPCODE.binary, data);
        },
        close(code, reason) {
            if (isOver)
                return;
            isOver = true;
            clearTimeout(handshakeTimer);
            if (tcp)
                sendClose(code, reason);
            else
                request.destroy();
        },
        hidesWireBytes: false,
    };
};
