/**
 * Typed event emitter.
 *
 * A listener that throws does not stop the others and never reaches the socket: the emitter passes the exception to
 * `onListenerError`.
 */
/** `Events` maps the name of each event to the arguments of its listeners. */
export declare class Emitter<Events extends {
    [K in keyof Events]: unknown[];
}> {
    #private;
    /** Calls `listener` for each event until the returned function is called. */
    on<K extends keyof Events>(name: K, listener: (...values: Events[K]) => void): () => void;
    /** Calls `listener` for the next event only. */
    once<K extends keyof Events>(name: K, listener: (...values: Events[K]) => void): () => void;
    off<K extends keyof Events>(name: K, listener: (...values: Events[K]) => void): void;
    /** Resolves with the arguments of the next event; rejects with `signal.reason` when `signal` is aborted. */
    next<K extends keyof Events>(name: K, signal?: AbortSignal): Promise<Events[K]>;
    hasListeners(name: keyof Events): boolean;
    protected emit<K extends keyof Events>(name: K, ...values: Events[K]): void;
    /** A listener for `name` was added or removed. */
    protected listenersChanged(_name: keyof Events): void;
    /** Rethrows outside of the caller, so that the runtime reports the exception as uncaught. */
    protected onListenerError(_name: keyof Events, error: unknown): void;
}
