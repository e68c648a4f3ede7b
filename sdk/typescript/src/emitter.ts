/**
 * Typed event emitter.
 *
 * A listener that throws does not stop the others and never reaches the socket: the emitter passes the exception to
 * `onListenerError`.
 */

type Listener = (...values: unknown[]) => void;

/** `Events` maps the name of each event to the arguments of its listeners. */
export class Emitter<Events extends { [K in keyof Events]: unknown[] }> {
  #listeners = new Map<PropertyKey, readonly Listener[]>();

  /** Calls `listener` for each event until the returned function is called. */
  on<K extends keyof Events>(name: K, listener: (...values: Events[K]) => void): () => void {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener as unknown as Listener]);
    this.listenersChanged(name);
    return () => this.off(name, listener);
  }

  /** Calls `listener` for the next event only. */
  once<K extends keyof Events>(name: K, listener: (...values: Events[K]) => void): () => void {
    const off = this.on(name, (...values) => {
      off();
      listener(...values);
    });
    return off;
  }

  off<K extends keyof Events>(name: K, listener: (...values: Events[K]) => void): void {
    const rest = (this.#listeners.get(name) ?? []).filter((of) => of !== (listener as unknown as Listener));
    if (rest.length > 0) this.#listeners.set(name, rest);
    else this.#listeners.delete(name);
    this.listenersChanged(name);
  }

  /** Resolves with the arguments of the next event; rejects with `signal.reason` when `signal` is aborted. */
  next<K extends keyof Events>(name: K, signal?: AbortSignal): Promise<Events[K]> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const abort = () => {
        off();
        reject(signal?.reason as Error);
      };
      const off = this.once(name, (...values) => {
        signal?.removeEventListener("abort", abort);
        resolve(values);
      });
      signal?.addEventListener("abort", abort, { once: true });
    });
  }

  hasListeners(name: keyof Events): boolean {
    return this.#listeners.has(name);
  }

  protected emit<K extends keyof Events>(name: K, ...values: Events[K]): void {
    const listeners = this.#listeners.get(name);
    if (!listeners) return;
    for (const listener of listeners) {
      try {
        listener(...values);
      } catch (error) {
        this.onListenerError(name, error);
      }
    }
  }

  /** A listener for `name` was added or removed. */
  protected listenersChanged(_name: keyof Events): void {}

  /** Rethrows outside of the caller, so that the runtime reports the exception as uncaught. */
  protected onListenerError(_name: keyof Events, error: unknown): void {
    queueMicrotask(() => {
      throw error;
    });
  }
}
