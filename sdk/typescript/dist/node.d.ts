/** Client for Node: its own WebSocket, which Node 20 lacks. */
import { Client as AnyClient } from "./client/client.js";
import type { OpenSocket } from "./transport/transport.js";
export * from "./api.js";
export declare class Client extends AnyClient {
    protected get openSocket(): OpenSocket;
}
