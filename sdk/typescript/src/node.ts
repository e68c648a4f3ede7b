/** Client for Node: its own WebSocket, which Node 20 lacks. */

import { Client as AnyClient } from "./client/client.js";
import { openNodeSocket } from "./transport/nodeSocket.js";
import type { OpenSocket } from "./transport/transport.js";

export * from "./api.js";

export class Client<Own extends object = {}> extends AnyClient<Own> {
  protected override get openSocket(): OpenSocket {
    return openNodeSocket;
  }
}
