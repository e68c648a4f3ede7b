/** Types of the public API: this file has to compile, and each line marked with an error must not. */

import { Client, Intents, Opcode, Shards, type DispatchContext, type EventBodies, type Message, type Result } from "../../src/index.js";
import { Client as NodeClient } from "../../src/node.js";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const holds = <T extends true>(): T | undefined => undefined;

const client = new Client({ url: "ws://x", token: "t", intents: Intents.GUILDS | Intents.GUILD_MESSAGES });

client.on("MESSAGE_CREATE", (message, context) => {
  holds<Equal<typeof message, Message>>();
  holds<Equal<typeof context.seq, number>>();
  holds<Equal<typeof message.author.username, string>>();
  holds<Equal<typeof message.guild_id, string | undefined>>();
});
client.on("resumed", (info) => holds<Equal<typeof info.replayed, number>>());
client.on("GUILD_MEMBER_LIST_UPDATE", ({ ops }) => {
  for (const op of ops) if (op.op === "SYNC") holds<Equal<typeof op.range, [number, number]>>();
});

// @ts-expect-error: no such event.
client.on("MESSAGE_CREATED", () => {});
// @ts-expect-error: a token is required.
new Client({ url: "ws://x" });
// @ts-expect-error: no such status.
client.setPresence({ status: "away" });
// @ts-expect-error: either names or ids.
void client.requestMembers("1", { limit: 3 });
// @ts-expect-error: the value exists only if `ok`.
void client.requestMembers("1", { query: "" }).then((result) => result.value);

const unwrap = <T>(result: Result<T>): T | string => (result.ok ? result.value : result.problem.advice);
holds<Equal<typeof Opcode.HELLO, 10>>();
holds<Equal<EventBodies["TYPING_START"]["user_id"], string>>();

/** Events of a backend: by a type argument, … */
interface GameEvents {
  ROUND_STARTED: { round: number };
  "game/over": { winners: readonly string[] };
}
const game = new Client<GameEvents>({ url: "ws://x", token: "t" });
game.on("ROUND_STARTED", (body, info) => {
  holds<Equal<typeof body, { round: number }>>();
  holds<Equal<typeof info, DispatchContext>>();
});
game.once("game/over", ({ winners }) => holds<Equal<typeof winners, readonly string[]>>());
game.on("MESSAGE_CREATE", (message) => holds<Equal<typeof message, Message>>());
game.on("resumed", (info) => holds<Equal<typeof info.replayed, number>>());
game.on("dispatch", (body, { name, seq, isReplay }) => {
  holds<Equal<typeof body, unknown>>();
  holds<Equal<[typeof name, typeof seq, typeof isReplay], [string, number, boolean]>>();
});
void game.next("ROUND_STARTED").then(([body]) => holds<Equal<typeof body.round, number>>());
new Client<{ ROUND_STARTED: { round: number } }>({ url: "ws://x", token: "t" }).on("ROUND_STARTED", ({ round }) => holds<Equal<typeof round, number>>());
// @ts-expect-error: no such event, neither of the gateway nor of the backend.
game.on("ROUND_ENDED", () => {});
// @ts-expect-error: no such field.
game.on("ROUND_STARTED", ({ rounds }) => rounds);
// Any client is a client.
const several = new Shards({ url: "ws://x", token: "t", intents: 0, count: 2 }, (options) => new Client<GameEvents>(options));
several.of("1")?.on("ROUND_STARTED", ({ round }) => holds<Equal<typeof round, number>>());
new NodeClient<GameEvents>({ url: "ws://x", token: "t" }).on("ROUND_STARTED", ({ round }) => holds<Equal<typeof round, number>>());

/** … or for all clients of a program by declaration merging. */
declare module "../../src/generated/protocol.js" {
  interface EventBodies {
    LOBBY_OPENED: { lobby: string };
  }
}
client.on("LOBBY_OPENED", ({ lobby }) => holds<Equal<typeof lobby, string>>());
game.on("LOBBY_OPENED", ({ lobby }) => holds<Equal<typeof lobby, string>>());

export { unwrap };
