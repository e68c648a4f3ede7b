import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { etf } from "../../src/codec/etf.js";
import { json, utf8Bytes } from "../../src/codec/encoding.js";

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex.replace(/[^0-9a-f]/g, ""), "hex"));

/** Seeded random numbers, so that a failure can be repeated. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe("json", () => {
  const SCANNED: [string, ReturnType<typeof json.scan>][] = [
    ['{"t":"TYPING_START","s":42,"op":0,"d":{"t":"X","s":1}}', { op: 0, seq: 42, name: "TYPING_START" }],
    ['{"t":null,"s":null,"op":11,"d":null}', null],
    ['{"op":0,"t":"X","s":1,"d":null}', null],
    ['{"t":"X","s":,"op":0,"d":null}', null],
    ['{"t":"X","s":1,"op":1,"d":null}', null],
    ['{"t":"X', null],
    ["", null],
  ];
  for (const [text, expected] of SCANNED) {
    test(`scan ${text || "nothing"}`, () => {
      assert.deepEqual(json.scan(new TextEncoder().encode(text)), expected);
      assert.deepEqual(json.scan(text), expected);
    });
  }

  test("texts that are no payload are refused", () => {
    for (const text of ["null", "[]", "1", '{"op":"0"}', "{", "\u0000"]) assert.throws(() => json.decode(text), text);
  });

  test("utf8Bytes counts without encoding", () => {
    for (const text of ["", "a", "é", "€", "😀", "a😀é€"]) assert.equal(utf8Bytes(text), new TextEncoder().encode(text).length);
  });
});

describe("etf", () => {
  test("the example of reference.md §2.2", () => {
    const ack = bytes("83 74 00000004 64 0001 64 64 0003 6e696c 64 0002 6f70 61 0b 64 0001 73 64 0003 6e696c 64 0001 74 64 0003 6e696c");
    assert.deepEqual(etf.decode(ack), { op: 11, d: null, seq: null, name: null });
    assert.equal(etf.scan(ack), null);
  });

  const dispatch = (seq: string, body: string) => bytes(`83 74 00000004 64000164 ${body} 6400026f70 6100 64000173 ${seq} 64000174 640005 5245414459`);

  test("scan finds the envelope at the end", () => {
    for (const [seq, expected] of [["6105", 5], ["6200010000", 65_536]] as const) {
      const data = dispatch(seq, "6a");
      assert.deepEqual(etf.scan(data), { op: 0, seq: expected, name: "READY" });
      const { d, ...head } = etf.decode(data);
      assert.deepEqual(d, []);
      assert.deepEqual(head, etf.scan(data));
    }
  });

  test("every tag that the gateway may send", () => {
    const check = (hex: string, expected: unknown) => assert.deepEqual(etf.decode(dispatch("6101", hex)).d, expected, hex);
    check("6400046e756c6c", null);
    check("770474727565", true);
    check("73 05 66616c7365", false);
    check("62ffffffff", -1);
    check("46 3ff8000000000000", 1.5);
    check("63 312e35" + "00".repeat(28), 1.5);
    check("6d00000003 e282ac", "€");
    check("6b0002 0102", [1, 2]);
    check("6802 6101 6102", [1, 2]);
    check("6c00000001 6101 6a", [1]);
    check("6e0800 0000000000000080", "9223372036854775808");
    check("6e0801 ffffffffffffffff", "-18446744073709551615");
    check("6e0600 0000000001 00", 4_294_967_296);
    check("6e0700 ffffffffffff1f", Number.MAX_SAFE_INTEGER);
    check("6f00000008 00 00000000000000 10", "1152921504606846976");
  });

  test("numbers under keys of ids are strings, in lists too", () => {
    const pair = (key: string, value: string) => `6d${key.length.toString(16).padStart(8, "0")}${Buffer.from(key).toString("hex")}${value}`;
    const map = `7400000004 ${pair("id", "6105")} ${pair("roles", "6c00000001 6107 6a")} ${pair("user_id", "6400036e696c")} ${pair("count", "6105")}`;
    assert.deepEqual(etf.decode(dispatch("6101", map)).d, { id: "5", roles: ["7"], user_id: null, count: 5 });
  });

  test("decimal digits agree with BigInt", () => {
    const next = random(7);
    for (let i = 0; i < 5_000; i += 1) {
      const digits = Array.from({ length: 8 }, () => Math.floor(next() * 256));
      const expected = digits.reduce((sum, digit, at) => sum + (BigInt(digit) << BigInt(8 * at)), 0n).toString();
      const decoded = etf.decode(dispatch("6101", `6e0800${Buffer.from(digits).toString("hex")}`)).d;
      assert.equal(String(decoded), expected);
    }
  });

  test("an encoded value decodes to itself", () => {
    const d = { a: [1, -5, 256, 2 ** 40, -(2 ** 40), 1.5, "é", "x".repeat(300), null, true, false, [], {}], b: { c: "d" }, left: undefined };
    const { left: _, ...expected } = d;
    assert.deepEqual(etf.decode(etf.encode({ op: 4, d }) as Uint8Array), { op: 4, d: expected, seq: null, name: null });
  });

  test("a key cannot change the prototype", () => {
    const map = "7400000001 6d00000009 5f5f70726f746f5f5f 7400000001 6d00000001 78 6101";
    const d = etf.decode(dispatch("6101", map)).d as { x?: number };
    assert.equal(d.x, undefined);
    assert.deepEqual(Object.keys(d), ["__proto__"]);
  });

  test("damaged terms are refused, without hanging and without large allocations", () => {
    const whole = etf.encode({ op: 0, d: { list: [1, 2, { x: "yz" }], text: "é".repeat(40), big: 2 ** 45 } }) as Uint8Array;
    for (let cut = 0; cut < whole.length; cut += 1) assert.throws(() => etf.decode(whole.slice(0, cut)), `cut at ${cut}`);
    const next = random(11);
    for (let round = 0; round < 20_000; round += 1) {
      const damaged = whole.slice();
      for (let i = 0; i < 3; i += 1) damaged[Math.floor(next() * damaged.length)] = Math.floor(next() * 256);
      try {
        etf.decode(damaged);
      } catch (error) {
        assert.ok(error instanceof Error);
      }
      etf.scan(damaged);
    }
    for (const hex of ["83 6c ffffffff", "83 74 ffffffff", "83 6d ffffffff", "83" + "6c00000001".repeat(10_000), "82", "83 6101 00"]) {
      assert.throws(() => etf.decode(bytes(hex)));
    }
  });
});
