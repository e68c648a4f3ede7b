/** The runtime's own WebSocket: browsers, workers, Node from 22. */
import type { OpenSocket } from "./transport.js";
export declare const openBrowserSocket: OpenSocket;
