/** Types of the public API: this file has to compile, and each line marked with an error must not. */

import { Client, Intents, Opcode, type EventBodies, type Message, type Result } from "../../src/index.js";

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

/** Events of a backend: by declaration merging. */
declare module "../../src/generated/protocol.js" {
  interface EventBodies {
    ROUND_STARTED: { round: number };
  }
}
client.on("ROUND_STARTED", ({ round }) => holds<Equal<typeof round, number>>());

export { unwrap };
