/**
 * WebSocket client of RFC 6455 on `node:http` and `node:https`: Node 20 has none of its own. It hands over the bytes of
 * text messages as they are, so that messages nobody reads are never decoded, and offers no extension.
 *
 * Limits  a message of more than `MESSAGE_BYTES_MAX` ends the connection with 1009; the handshake may take
 *         `HANDSHAKE_MS`; a closed peer that does not close its end is cut after `LINGER_MS`.
 */
import type { OpenSocket } from "./transport.js";
export declare const openNodeSocket: OpenSocket;
