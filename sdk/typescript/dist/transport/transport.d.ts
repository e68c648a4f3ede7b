/** What the client needs of a WebSocket. */
export interface SocketHandlers {
    readonly opened: () => void;
    /** One message: text, or bytes. Bytes are valid until the handler returns. `headerBytes` is the size of its frame headers. */
    readonly message: (data: string | Uint8Array, headerBytes: number) => void;
    /** Called once, also when the socket could not be opened; then `code` is 1006. */
    readonly closed: (code: number, reason: string) => void;
}
export interface Socket {
    send(data: string | Uint8Array): void;
    /** The handlers are not called any more. */
    close(code: number, reason: string): void;
    /** True if the peer compresses below the client's view, so that bytes on the wire are not known. */
    readonly hidesWireBytes: boolean;
}
export type OpenSocket = (url: string, handlers: SocketHandlers) => Socket;
