/**
 * What can go wrong, as data. Nothing in this package throws for an event of the network, and nothing writes to the
 * console.
 */
export const done = { ok: true, value: undefined };
