/** Codecs of a connection: one encoding, and compressions in the order of preference. */
/** No compression by the stream. Browsers negotiate permessage-deflate by themselves. */
export const none = {
    name: "none",
    query: {},
    prepare: () => Promise.resolve(() => ({ push: (data) => data, free() { } })),
};
