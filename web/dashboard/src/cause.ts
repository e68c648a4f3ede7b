// Cause: which message makes a guild busy. Commits and loads are steps of other messages and cause nothing: the time of commits counts for the
// messages that write.

/** Time and number of one message type, per second. */
export interface Cost { name: string; busy: number; often: number }
export interface Cause extends Cost { /** Of all time. */ share: number; /** Its part of the commits is in `busy`. */ hasCommits: boolean }

/** Steps inside of a guild, in words. */
export const STEPS: Record<string, string> = {
  begin_commit: "its writes go to the store", committed: "its writes are durable, and events and answers go out", timer: "what it does by the clock",
  loaded: "it came from the store", message_loaded: "a message came from the store", job_done: "a background job is done",
};
const COMMITS = ["begin_commit", "committed"];
/** Commands that read, or whose events are not stored; and what relays send. */
const WRITES_NOTHING = /^(relay|read|list|search|authorize|show|start)_|^backend_(read|list|compare|publish)/;

/** The message that takes most of the time, with its commits; undefined if only steps are known. */
export function causeOf(types: readonly Cost[]): Cause | undefined {
  const all = types.reduce((sum, { busy }) => sum + busy, 0);
  const messages = types.filter(({ name }) => !(name in STEPS));
  const commits = types.filter(({ name }) => COMMITS.includes(name)).reduce((sum, { busy }) => sum + busy, 0);
  const writes = ({ name }: Cost) => !WRITES_NOTHING.test(name);
  const written = messages.filter(writes).reduce((sum, { often }) => sum + often, 0);
  let cause: Cause | undefined;
  for (const message of messages) {
    const extra = writes(message) && written > 0 ? (commits * message.often) / written : 0;
    const busy = message.busy + extra;
    if (busy > (cause?.busy ?? 0)) cause = { ...message, busy, share: busy / all, hasCommits: extra > 0 };
  }
  return cause;
}
