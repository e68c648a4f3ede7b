/** The runtime's own WebSocket: browsers, workers, Node from 22. */
/** Header of an unmasked frame with a payload of this size; a fragmented message had more. */
function headerBytes(size) {
    return size < 126 ? 2 : size < 65_536 ? 4 : 10;
}
export const openBrowserSocket = (url, handlers) => {
    let isOver = false;
    const end = (code, reason) => {
        if (isOver)
            return;
        isOver = true;
        handlers.closed(code, reason);
    };
    let socket;
    try {
        socket = new WebSocket(url);
    }
    catch (error) {
        queueMicrotask(() => end(1006, `cannot open ${url.split("?")[0]}: ${String(error)}`));
        return { send() { }, close() { isOver = true; }, hidesWireBytes: false };
    }
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { if (!isOver)
        handlers.opened(); };
    socket.onmessage = ({ data }) => {
        if (isOver)
            return;
        if (typeof data === "string")
            handlers.message(data, headerBytes(data.length));
        else
            handlers.message(new Uint8Array(data), headerBytes(data.byteLength));
    };
    socket.onclose = ({ code, reason }) => end(code, reason);
    socket.onerror = () => { };
    return {
        send(data) {
            if (socket.readyState === WebSocket.OPEN)
                socket.send(data);
        },
        close(code, reason) {
            isOver = true;
            socket.close(code, reason);
        },
        get hidesWireBytes() {
            return socket.extensions.includes("permessage-deflate");
        },
    };
};
