/** What the client needs of a WebSocket. */
export {};
