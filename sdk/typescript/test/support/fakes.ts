/** A clock that stands still, and a gateway without a network: shared by all unit tests. */

import { json, type Encoding } from "../../src/codec/encoding.js";
import { Client } from "../../src/client/client.js";
import type { Clock, ClientOptions } from "../../src/client/options.js";
import type { OpenSocket, SocketHandlers } from "../../src/transport/transport.js";

export class FakeClock implements Clock {
  #now = 0;
  #next = 0;
  #timers = new Map<number, { at: number; callback: () => void }>();

  now(): number {
    return this.#now;
  }

  setTimeout(callback: () => void, ms: number): unknown {
    this.#next += 1;
    this.#timers.set(this.#next, { at: this.#now + ms, callback });
    return this.#next;
  }

  clearTimeout(timer: unknown): void {
    this.#timers.delete(timer as number);
  }

  get timersCount(): number {
    return this.#timers.size;
  }

  /** Runs the timers of the next `ms` in order. */
  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, of]) => of.at <= end).sort(([a, x], [b, y]) => x.at - y.at || a - b)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.#now = Math.max(this.#now, due[1].at);
      due[1].callback();
    }
    this.#now = end;
  }
}

export interface Sent {
  readonly op: number;
  readonly d: any;
}

/** One connection, seen from the gateway. */
export class FakeConnection {
  readonly url: string;
  readonly sent: Sent[] = [];
  /** Code with which the client closed; null while it is open. */
  closedBy: number | null = null;
  #handlers: SocketHandlers;
  #encoding: Encoding;

  constructor(url: string, handlers: SocketHandlers, encoding: Encoding) {
    this.url = url;
    this.#handlers = handlers;
    this.#encoding = encoding;
  }

  get query(): URLSearchParams {
    return new URL(this.url).searchParams;
  }

  receive(data: string | Uint8Array): void {
    this.sent.push(this.#encoding.decode(data) as unknown as Sent);
  }

  take(op: number): Sent | undefined {
    const at = this.sent.findIndex((of) => of.op === op);
    return at < 0 ? undefined : this.sent.splice(at, 1)[0];
  }

  raw(data: string | Uint8Array): void {
    this.#handlers.message(data, 2);
  }

  payload(op: number, d: unknown = null): void {
    this.raw(JSON.stringify({ t: null, s: null, op, d }));
  }

  dispatch(name: string, seq: number, d: unknown = {}): void {
    this.raw(JSON.stringify({ t: name, s: seq, op: 0, d }));
  }

  hello(interval = 40_000): void {
    this.#handlers.opened();
    this.payload(10, { heartbeat_interval: interval });
  }

  close(code: number, reason = ""): void {
    this.#handlers.closed(code, reason);
  }
}

export class FakeGateway {
  readonly connections: FakeConnection[] = [];
  readonly open: OpenSocket;

  constructor(encoding: Encoding = json) {
    this.open = (url, handlers) => {
      const connection = new FakeConnection(url, handlers, encoding);
      this.connections.push(connection);
      return {
        send: (data) => connection.receive(data),
        close: (code) => {
          connection.closedBy = code;
        },
        hidesWireBytes: false,
      };
    };
  }

  get last(): FakeConnection {
    const last = this.connections.at(-1);
    if (!last) throw new Error("nobody connected");
    return last;
  }
}

export function ready(overrides: object = {}): object {
  return {
    v: 10,
    user: { id: "1", username: "ana", discriminator: "0", global_name: null, avatar: null, public_flags: 0, avatar_decoration_data: null },
    guilds: [], private_channels: [], session_id: "session", resume_gateway_url: "ws://resume.test", ...overrides,
  };
}

/** Lets the promises of the client's connecting run. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await Promise.resolve();
}

/** A client with its world. `random` is 0.5. */
export function world(options: Partial<ClientOptions> = {}) {
  const clock = new FakeClock();
  const gateway = new FakeGateway(options.encoding);
  const client = new Client({
    url: "ws://gateway.test", token: "token", clock, openSocket: gateway.open, random: () => 0.5, ...options,
  });
  const events: [string, any][] = [];
  for (const name of ["state", "began", "resumed", "gap", "lost", "reconnect", "stopped", "problem", "codecFallback"] as const) {
    client.on(name, (value?: unknown) => void events.push([name, value]));
  }
  const named = (name: string): any[] => events.filter(([of]) => of === name).map(([, value]) => value);
  /** Connects up to READY. */
  const login = async (body: object = {}): Promise<FakeConnection> => {
    client.connect();
    await settle();
    gateway.last.hello();
    gateway.last.dispatch("READY", 1, ready(body));
    return gateway.last;
  };
  /** Waits for the next connection after a break. */
  const reconnected = async (): Promise<FakeConnection> => {
    const before = gateway.connections.length;
    for (let i = 0; i < 100 && gateway.connections.length === before; i += 1) {
      clock.advance(1_000);
      await settle();
    }
    return gateway.last;
  };
  return { clock, gateway, client, events, named, login, reconnected };
}
