/** Client for Node: its own WebSocket, which Node 20 lacks. */
import { Client as AnyClient } from "./client/client.js";
import { openNodeSocket } from "./transport/nodeSocket.js";
export * from "./api.js";
export class Client extends AnyClient {
    get openSocket() {
        return openNodeSocket;
    }
}
