/** Client for browsers; Node's is in `node.ts`. */
export * from "./api.js";
export { Client } from "./client/client.js";
