/**
 * zlib and zstd of Node. `node:zlib` decompresses synchronously only by `_processChunk`, which is not documented but
 * has not changed since Node 0.12; the self-test of `chooseBackend` finds out whether it works. zstd: Node ≥ 22.15.
 */
import * as zlib from "node:zlib";
import { MESSAGE_BYTES_MAX, ZSTD_WINDOW_LOG_MAX } from "./compression.js";
const nothing = () => { };
class NodeStream {
    #stream;
    #flush;
    /** `_processChunk` is meant for one call: it closes the handle, so the handle is kept here. */
    #handle;
    #closeHandle;
    constructor(stream, flush) {
        this.#stream = stream;
        this.#flush = flush;
        const handle = stream._handle;
        if (!handle)
            throw new Error("this Node keeps no handle");
        this.#handle = handle;
        this.#closeHandle = handle.close.bind(handle);
        handle.close = nothing;
    }
    push(data) {
        this.#stream._handle = this.#handle;
        const out = this.#stream._processChunk(data, this.#flush);
        // Each call adds one. After an error, which is thrown and emitted, the listener stays.
        this.#stream.removeAllListeners("error");
        return out ?? new Uint8Array();
    }
    free() {
        this.#closeHandle();
    }
}
const CHUNK_BYTES = 64 * 1024;
export const zlibNode = {
    name: "node:zlib",
    load: () => Promise.resolve(() => {
        const stream = zlib.createInflate({ chunkSize: CHUNK_BYTES, flush: zlib.constants.Z_SYNC_FLUSH, maxOutputLength: MESSAGE_BYTES_MAX });
        return new NodeStream(stream, zlib.constants.Z_SYNC_FLUSH);
    }),
};
export const zstdNode = {
    name: "node:zlib",
    load() {
        const create = zlib.createZstdDecompress;
        if (!create)
            return Promise.reject(new Error("this Node has no zstd"));
        const { ZSTD_e_flush: flush, ZSTD_d_windowLogMax: windowLogMax } = zlib.constants;
        return Promise.resolve((dictionary) => {
            const params = { [windowLogMax]: ZSTD_WINDOW_LOG_MAX };
            const stream = create({ chunkSize: CHUNK_BYTES, maxOutputLength: MESSAGE_BYTES_MAX, params, ...(dictionary && { dictionary }) });
            return new NodeStream(stream, flush);
        });
    },
};
