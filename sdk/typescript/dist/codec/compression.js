/** Decompressors of a connection's messages. */
/** Above anything that a gateway sends: READY for hundreds of guilds has some tens of megabytes. */
export const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
/** Base-2 logarithm of the largest window of zstd, as RFC 8878 advises. */
export const ZSTD_WINDOW_LOG_MAX = 23;
/**
 * The fastest backend that decompresses `sample` correctly: messages of one stream, each complete at its flush. Backends
 * in their order; a later one has to be faster by a tenth. Rejects if none works.
 */
export async function chooseBackend(backends, sample) {
    let best = null;
    const reasons = [];
    for (const backend of backends) {
        try {
            const create = await backend.load();
            const ms = test(create, sample);
            if (!best || ms < best.ms * 0.9)
                best = { create, ms };
        }
        catch (error) {
            reasons.push(`${backend.name}: ${String(error)}`);
        }
    }
    if (!best)
        throw new Error(`no decompressor works here (${reasons.join("; ")})`);
    return best.create;
}
const ROUNDS = 8;
/** Time of the fastest of a few rounds, without the comparison. */
function test(create, sample) {
    let best = Infinity;
    for (let round = 0; round < ROUNDS; round += 1) {
        const decompressor = create();
        let ms = 0;
        sample.compressed.forEach((data, index) => {
            const started = performance.now();
            const bytes = decompressor.push(data);
            ms += performance.now() - started;
            const expected = sample.messages[index];
            if (bytes.length !== expected.length || String.fromCharCode(...bytes) !== expected)
                throw new Error("the self-test failed");
        });
        best = Math.min(best, ms);
        decompressor.free();
    }
    return best;
}
