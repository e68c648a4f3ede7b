/** Consequence of each close code. Spec: docs/protocol/reference.md §1.4. */
const NOTHING = "Nothing to do: the client reconnects by itself.";
const REPORT = "Report this as a bug of the client; it resumes by itself.";
const TABLE = {
    4000: { consequence: "resume", kind: "connection", message: "The gateway closed the connection.", advice: NOTHING },
    4001: { consequence: "resume", kind: "payload", message: "The gateway did not understand a payload.", advice: REPORT },
    4002: { consequence: "resume", kind: "payload", message: "The gateway could not decode a message, or refused the encoding or compression.", advice: "Check `encoding`, `compression` and the size of what is sent." },
    4003: { consequence: "resume", kind: "session", message: "IDENTIFY came too late.", advice: NOTHING },
    4004: { consequence: "stop", kind: "authentication", message: "The token is wrong, revoked or expired.", advice: "Get a new token and connect again." },
    4005: { consequence: "resume", kind: "payload", message: "The connection had a session already.", advice: REPORT },
    4007: { consequence: "identify", kind: "session", message: "The gateway does not know the sequence number of the RESUME.", advice: NOTHING },
    4008: { consequence: "resume", kind: "rateLimit", message: "The client sent too many messages.", advice: "Send less often; the client reconnects by itself." },
    4009: { consequence: "identify", kind: "session", message: "The session expired.", advice: NOTHING },
    4010: { consequence: "stop", kind: "configuration", message: "The gateway does not accept this shard.", advice: "Check the option `shard`." },
    4011: { consequence: "stop", kind: "configuration", message: "The shard would hold too many guilds.", advice: "Use more shards." },
    4012: { consequence: "stop", kind: "configuration", message: "The gateway does not serve this version of the API.", advice: "Update the client or the gateway." },
    4013: { consequence: "stop", kind: "configuration", message: "The intents are invalid.", advice: "Check the option `intents`." },
    4014: { consequence: "stop", kind: "configuration", message: "The application was not granted a privileged intent.", advice: "Remove the intent, or have it granted." },
    4015: { consequence: "stop", kind: "rateLimit", message: "The account has too many sessions.", advice: "Close another client of this account." },
};
const OTHER = { consequence: "resume", kind: "connection", message: "The connection broke.", advice: NOTHING };
/** What to do after a connection was closed with `code`, and how to say it. */
export function consequenceOf(code, reason) {
    const entry = TABLE[code] ?? OTHER;
    const said = reason ? ` The gateway says: ${reason}` : "";
    const isFatal = entry.consequence === "stop";
    return { consequence: entry.consequence, problem: { kind: entry.kind, code, message: entry.message + said, advice: entry.advice, isFatal } };
}
