/**
 * Typed event emitter.
 *
 * A listener that throws does not stop the others and never reaches the socket: the emitter passes the exception to
 * `onListenerError`.
 */
/** `Events` maps the name of each event to the arguments of its listeners. */
export class Emitter {
    #listeners = new Map();
    /** Calls `listener` for each event until the returned function is called. */
    on(name, listener) {
        this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
        this.listenersChanged(name);
        return () => this.off(name, listener);
    }
    /** Calls `listener` for the next event only. */
    once(name, listener) {
        const off = this.on(name, (...values) => {
            off();
            listener(...values);
        });
        return off;
    }
    off(name, listener) {
        const rest = (this.#listeners.get(name) ?? []).filter((of) => of !== listener);
        if (rest.length > 0)
            this.#listeners.set(name, rest);
        else
            this.#listeners.delete(name);
        this.listenersChanged(name);
    }
    /** Resolves with the arguments of the next event; rejects with `signal.reason` when `signal` is aborted. */
    next(name, signal) {
        return new Promise((resolve, reject) => {
            if (signal?.aborted)
                return reject(signal.reason);
            const abort = () => {
                off();
                reject(signal?.reason);
            };
            const off = this.once(name, (...values) => {
                signal?.removeEventListener("abort", abort);
                resolve(values);
            });
            signal?.addEventListener("abort", abort, { once: true });
        });
    }
    hasListeners(name) {
        return this.#listeners.has(name);
    }
    emit(name, ...values) {
        const listeners = this.#listeners.get(name);
        if (!listeners)
            return;
        for (const listener of listeners) {
            try {
                listener(...values);
            }
            catch (error) {
                this.onListenerError(name, error);
            }
        }
    }
    /** A listener for `name` was added or removed. */
    listenersChanged(_name) { }
    /** Rethrows outside of the caller, so that the runtime reports the exception as uncaught. */
    onListenerError(_name, error) {
        queueMicrotask(() => {
            throw error;
        });
    }
}
