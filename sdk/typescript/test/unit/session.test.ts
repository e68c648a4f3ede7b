import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CloseCode } from "../../src/generated/codes.js";
import { consequenceOf } from "../../src/core/closeCodes.js";
import { Session, type Action, type SessionOptions } from "../../src/core/session.js";
import { COMMANDS_WAITING_MAX } from "../../src/core/sendQueue.js";

const READY = { session_id: "S", resume_gateway_url: "ws://resume" };

/** A session and its driver: time is a number. */
class Driver {
  now = 0;
  actions: Action[] = [];
  session: Session;

  constructor(options: Partial<SessionOptions> = {}) {
    this.session = new Session({ url: "ws://gateway", token: () => "T", identify: () => ({ intents: 1 }), random: () => 0.5, ...options });
  }

  drain(): Action[] {
    const drained: Action[] = [];
    for (let action = this.session.poll(); action; action = this.session.poll()) drained.push(action);
    this.actions.push(...drained);
    return drained;
  }

  payload(op: number, d: unknown = null, seq: number | null = null, name: string | null = null): boolean {
    const isForUs = this.session.handlePayload(this.now, op, seq, name, d);
    this.drain();
    return isForUs;
  }

  /** Moves to the next deadline. */
  wait(): void {
    const at = this.session.deadline(this.now);
    assert.notEqual(at, null, "nothing is due");
    this.now = Math.max(this.now, at as number);
    this.session.handleTimeout(this.now);
    this.drain();
  }

  connect(): void {
    this.session.connect(this.now);
    this.drain();
  }

  login(): void {
    this.connect();
    this.payload(10, { heartbeat_interval: 40_000 });
    this.payload(0, READY, 1, "READY");
    this.actions = [];
  }

  close(code: number): void {
    this.session.handleClose(this.now, code, "");
    this.drain();
  }

  of<T extends Action["type"]>(type: T): Extract<Action, { type: T }>[] {
    return this.actions.filter((action) => action.type === type) as Extract<Action, { type: T }>[];
  }

  sent(op: number): unknown[] {
    return this.of("send").filter((action) => action.op === op).map((action) => action.d);
  }
}

describe("login", () => {
  test("IDENTIFY follows HELLO, and READY makes the session", () => {
    const driver = new Driver();
    driver.connect();
    assert.deepEqual(driver.of("open"), [{ type: "open", url: "ws://gateway", isResume: false }]);
    assert.deepEqual(driver.sent(2), []);
    driver.payload(10, { heartbeat_interval: 40_000 });
    assert.deepEqual(driver.sent(2), [{ token: "T", intents: 1 }]);
    assert.ok(driver.payload(0, READY, 1, "READY"));
    assert.equal(driver.session.state, "ready");
    assert.deepEqual(driver.session.resumePoint, { sessionId: "S", resumeUrl: "ws://resume", seq: 1 });
  });

  test("a session of another client is resumed", () => {
    const driver = new Driver({ resume: { sessionId: "S", resumeUrl: "ws://resume", seq: 41 } });
    driver.connect();
    driver.payload(10, { heartbeat_interval: 40_000 });
    assert.deepEqual(driver.sent(6), [{ token: "T", session_id: "S", seq: 41 }]);
    driver.payload(0, {}, 42, "MESSAGE_CREATE");
    driver.payload(0, {}, 43, "RESUMED");
    assert.equal(driver.of("resumed")[0]?.replayed, 1);
  });

  test("HELLO and READY without what they need end the connection, not the client", () => {
    for (const [op, d, name] of [[10, {}, null], [0, {}, "READY"]] as const) {
      const driver = new Driver();
      driver.connect();
      if (op === 0) driver.payload(10, { heartbeat_interval: 40_000 });
      assert.equal(driver.payload(op, d, 1, name), false);
      assert.equal(driver.session.state, "waiting");
    }
  });
});

describe("s1: order", () => {
  test("a dispatch that came before is dropped and reported", () => {
    const driver = new Driver();
    driver.login();
    assert.ok(driver.payload(0, {}, 2, "TYPING_START"));
    assert.ok(!driver.payload(0, {}, 2, "TYPING_START"));
    assert.ok(!driver.payload(0, {}, 1, "TYPING_START"));
    assert.equal(driver.of("gap").length, 2);
    assert.equal(driver.session.seq, 2);
  });

  test("a gap is reported, but none within a replay", () => {
    const driver = new Driver();
    driver.login();
    driver.payload(0, {}, 5, "TYPING_START");
    assert.deepEqual(driver.of("gap"), [{ type: "gap", after: 1, before: 5 }]);
    driver.close(1006);
    driver.wait();
    driver.payload(10, { heartbeat_interval: 40_000 });
    driver.actions = [];
    assert.ok(driver.payload(0, {}, 9, "MESSAGE_CREATE"));
    assert.ok(driver.payload(0, {}, 12, "RESUMED"));
    assert.deepEqual(driver.of("gap"), []);
    assert.equal(driver.session.seq, 12);
  });

  test("payloads of a closed connection change nothing", () => {
    const driver = new Driver();
    driver.login();
    driver.close(1006);
    assert.ok(!driver.payload(0, {}, 2, "TYPING_START"));
    assert.equal(driver.session.seq, 1);
  });
});

describe("s2: heartbeats", () => {
  test("the first comes after a random part of the interval, then one each interval", () => {
    const driver = new Driver();
    driver.login();
    driver.wait();
    assert.equal(driver.now, 20_000);
    driver.payload(11);
    driver.wait();
    assert.equal(driver.now, 60_000);
    assert.deepEqual(driver.sent(1), [1, 1]);
    assert.deepEqual(driver.of("latency"), [{ type: "latency", ms: 0 }]);
  });

  test("the gateway may request one", () => {
    const driver = new Driver();
    driver.login();
    driver.payload(1);
    assert.deepEqual(driver.sent(1), [1]);
  });

  test("without an acknowledgement the connection is a zombie: closed, and resumed", () => {
    const driver = new Driver();
    driver.login();
    driver.wait();
    driver.wait();
    assert.equal(driver.now, 60_000);
    assert.deepEqual(driver.of("close"), [{ type: "close", code: 4000, reason: "no heartbeat ACK" }]);
    assert.equal(driver.of("reconnect")[0]?.problem.kind, "zombie");
    assert.equal(driver.of("reconnect")[0]?.willResume, true);
    driver.wait();
    assert.deepEqual(driver.of("open"), [{ type: "open", url: "ws://resume", isResume: true }]);
  });
});

describe("s3: waits", () => {
  test("HELLO that does not come", () => {
    const driver = new Driver();
    driver.connect();
    driver.wait();
    assert.equal(driver.now, 20_000);
    assert.equal(driver.of("reconnect")[0]?.problem.kind, "timeout");
  });

  test("READY that does not come, though heartbeats are acknowledged", () => {
    const driver = new Driver();
    driver.connect();
    driver.payload(10, { heartbeat_interval: 10_000 });
    while (driver.session.state === "identifying") {
      driver.payload(11);
      driver.wait();
    }
    assert.equal(driver.now, 60_000);
  });

  test("a replay may take longer than the limit while it goes on", () => {
    const driver = new Driver({ resume: { sessionId: "S", resumeUrl: "ws://resume", seq: 0 } });
    driver.connect();
    driver.payload(10, { heartbeat_interval: 1e9 });
    for (let seq = 1; seq < 5; seq += 1) {
      driver.now += 50_000;
      driver.payload(0, {}, seq, "MESSAGE_CREATE");
      driver.session.handleTimeout(driver.now);
    }
    assert.equal(driver.session.state, "resuming");
  });

  test("in every state but idle and stopped there is a deadline", () => {
    const driver = new Driver();
    assert.equal(driver.session.deadline(0), null);
    driver.connect();
    for (let i = 0; i < 50; i += 1) {
      assert.notEqual(driver.session.deadline(driver.now), null, driver.session.state);
      driver.wait();
      if (i % 3 === 0 && driver.session.state === "connecting") driver.payload(10, { heartbeat_interval: 30_000 });
      if (i % 7 === 0) driver.payload(9, false);
    }
    driver.session.stop(driver.now, false);
    assert.equal(driver.session.deadline(driver.now), null);
  });
});

describe("s4: the end", () => {
  test("stop closes with 1000 and forgets; with keepSession it keeps", () => {
    for (const keepSession of [false, true]) {
      const driver = new Driver();
      driver.login();
      driver.session.stop(driver.now, keepSession);
      driver.drain();
      assert.equal(driver.of("close")[0]?.code, keepSession ? 4000 : 1000);
      assert.equal(driver.session.resumePoint !== null, keepSession);
      assert.ok(!driver.session.send(driver.now, 3, {}).ok);
      assert.ok(!driver.payload(0, {}, 2, "TYPING_START"));
      driver.session.handleTimeout(driver.now + 1e6);
      assert.deepEqual(driver.drain(), []);
    }
  });

  test("a stopped session can connect again", () => {
    const driver = new Driver();
    driver.login();
    driver.close(4013);
    assert.equal(driver.of("stopped")[0]?.problem.code, 4013);
    driver.connect();
    assert.equal(driver.session.state, "connecting");
  });
});

describe("close codes", () => {
  const EXPECTED: { [code: number]: [state: string, willResume: boolean] } = {
    1000: ["waiting", true], 1001: ["waiting", true], 1006: ["waiting", true], 4000: ["waiting", true], 4001: ["waiting", true],
    4002: ["waiting", true], 4003: ["waiting", true], 4004: ["stopped", true], 4005: ["waiting", true], 4007: ["waiting", false],
    4008: ["waiting", true], 4009: ["waiting", false], 4010: ["stopped", false], 4011: ["stopped", false], 4012: ["stopped", false],
    4013: ["stopped", false], 4014: ["stopped", false], 4015: ["stopped", false], 4999: ["waiting", true],
  };
  for (const [code, [state, willResume]] of Object.entries(EXPECTED)) {
    test(code, () => {
      const driver = new Driver();
      driver.login();
      driver.close(Number(code));
      assert.equal(driver.session.state, state);
      assert.equal(driver.session.resumePoint !== null, willResume);
      if (code === "4008") assert.ok((driver.of("reconnect")[0]?.delayMs ?? 0) >= 5_000);
    });
  }

  test("agree with the table of the model", () => {
    for (const { code, keepsSession } of Object.values(CloseCode)) {
      assert.equal(consequenceOf(code, "").consequence === "resume", keepsSession, String(code));
    }
  });
});

describe("op 7 and op 9", () => {
  test("op 7 is followed by a RESUME at once", () => {
    const driver = new Driver();
    driver.login();
    driver.payload(7);
    assert.equal(driver.of("close")[0]?.code, 4000);
    assert.ok((driver.of("reconnect")[0]?.delayMs ?? Infinity) <= 250);
    driver.wait();
    assert.equal(driver.of("open")[0]?.isResume, true);
  });

  test("a refused RESUME becomes an IDENTIFY on the same connection", () => {
    const driver = new Driver();
    driver.login();
    driver.close(1006);
    driver.wait();
    driver.payload(10, { heartbeat_interval: 40_000 });
    driver.actions = [];
    driver.payload(9, false);
    assert.equal(driver.of("lost").length, 1);
    assert.equal(driver.session.resumePoint, null);
    const refusedAt = driver.now;
    driver.wait();
    assert.ok(driver.now - refusedAt <= 1_000);
    assert.equal(driver.sent(2).length, 1);
    assert.equal(driver.of("open").length, 0);
    assert.ok(driver.payload(0, READY, 1, "READY"));
  });

  test("a refused IDENTIFY is repeated after 1 to 5 s", () => {
    const driver = new Driver();
    driver.connect();
    driver.payload(10, { heartbeat_interval: 40_000 });
    driver.payload(9, false);
    driver.wait();
    assert.equal(driver.now, 3_000);
    assert.equal(driver.sent(2).length, 2);
  });

  test("op 9 with true resumes on a new connection", () => {
    const driver = new Driver();
    driver.login();
    driver.payload(9, true);
    driver.wait();
    assert.equal(driver.of("open")[0]?.isResume, true);
  });
});

describe("back-off", () => {
  const delays = (random: () => number): number[] => {
    const driver = new Driver({ random });
    driver.connect();
    for (let i = 0; i < 10; i += 1) {
      driver.close(1006);
      driver.wait();
    }
    return driver.of("reconnect").map((action) => Math.round(action.delayMs));
  };

  test("doubles up to the limit, and half of it is random", () => {
    assert.deepEqual(delays(() => 0), [0, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000, 30000]);
    assert.deepEqual(delays(() => 1 - 1e-9), [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000, 60000]);
  });

  test("begins again only after a connection that lasted", () => {
    const driver = new Driver();
    driver.connect();
    for (const lastedMs of [100, 100, 20_000]) {
      driver.payload(10, { heartbeat_interval: 1e9 });
      driver.payload(0, READY, 1, "READY");
      driver.now += lastedMs;
      driver.close(1006);
      driver.wait();
    }
    assert.deepEqual(driver.of("reconnect").map((action) => action.attempt), [1, 2, 1]);
  });
});

describe("commands", () => {
  test("wait for the session", () => {
    const driver = new Driver();
    driver.connect();
    assert.ok(driver.session.send(0, 4, { a: 1 }).ok);
    driver.payload(10, { heartbeat_interval: 40_000 });
    assert.deepEqual(driver.sent(4), []);
    driver.payload(0, READY, 1, "READY");
    assert.deepEqual(driver.sent(4), [{ a: 1 }]);
  });

  test("are limited per minute, and none is lost", () => {
    const driver = new Driver();
    driver.login();
    for (let i = 0; i < 200; i += 1) assert.ok(driver.session.send(0, 4, i).ok);
    driver.drain();
    assert.equal(driver.sent(4).length, 110);
    while (driver.sent(4).length < 200) {
      driver.payload(11);
      driver.wait();
    }
    assert.equal(driver.now, 60_000);
    assert.deepEqual(driver.sent(4), Array.from({ length: 200 }, (_, i) => i));
  });

  test("a full queue refuses", () => {
    const driver = new Driver();
    for (let i = 0; i < COMMANDS_WAITING_MAX; i += 1) assert.ok(driver.session.send(0, 4, i).ok);
    const refused = driver.session.send(0, 4, {});
    assert.ok(!refused.ok && refused.problem.kind === "rateLimit");
  });

  test("of presences the newest goes out, five in 20 s", () => {
    const driver = new Driver();
    driver.login();
    for (let i = 0; i < 9; i += 1) driver.session.send(0, 3, i);
    driver.drain();
    assert.deepEqual(driver.sent(3), [0, 1, 2, 3, 4]);
    driver.wait();
    assert.equal(driver.now, 20_000);
    driver.session.handleTimeout(driver.now);
    driver.drain();
    assert.deepEqual(driver.sent(3), [0, 1, 2, 3, 4, 8]);
  });
});
