// One session on the bare gateway protocol, for `ws` and for browsers alike: both give a WebSocket of the same shape.
// Resolves to what was seen; rejects for anything that is not as it should be.
function runSession(open, settings) {
  return new Promise((resolve, reject) => {
    const { gateway_url: url, query, token, api_base: base, channel_id: channel, texts, presences } = settings;
    const socket = open(`${url}/?v=10&encoding=json${query}`);
    const seen = { extensions: null, messages: 0, acks: 0, payload_bytes: 0 };
    let seq = null;
    let posted = 0;
    const fail = (what) => {
      reject(new Error(what));
      socket.close(1000);
    };
    const send = (op, d) => socket.send(JSON.stringify({ op, d }));
    const post = async () => {
      // The event may overtake the answer.
      const content = texts[posted];
      posted += 1;
      const response = await fetch(`${base}/v10/channels/${channel}/messages`, {
        method: 'POST',
        headers: { Authorization: `Bot ${token}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ content }),
      });
      if (!response.ok) fail(`posting was answered ${response.status}: ${await response.text()}`);
    };
    // Between the messages the client sends texts with matches in its earlier messages.
    const talk = () => {
      const state = texts[seen.messages % texts.length].slice(0, 120);
      const activities = [{ name: 'Custom Status', type: 4, state }];
      if (seen.messages < presences) send(3, { status: 'online', since: null, afk: false, activities });
      send(1, seq);
    };
    socket.onopen = () => {
      seen.extensions = socket.extensions;
      if (settings.handshake_only) {
        resolve(seen);
        socket.close(1000);
      }
    };
    socket.onerror = (event) => fail(`the connection failed: ${event.message || 'no reason is given'}`);
    socket.onclose = (event) => {
      if (seen.acks < texts.length || seen.messages < texts.length) reject(new Error(`closed with ${event.code} ${event.reason}`));
      else resolve(seen);
    };
    socket.onmessage = (event) => {
      if (typeof event.data !== 'string') return fail('a binary frame in JSON');
      seen.payload_bytes += new TextEncoder().encode(event.data).length;
      const { op, d, s, t } = JSON.parse(event.data);
      if (op === 10) return send(2, { token, intents: 1 | (1 << 9) | (1 << 15), properties: { os: 'linux', browser: 'suite', device: 'suite' } });
      if (op === 11) {
        seen.acks += 1;
        if (seen.acks === texts.length) socket.close(1000);
        return undefined;
      }
      if (op !== 0) return fail(`op ${op}`);
      if (s !== (seq ?? 0) + 1) return fail(`${t} has ${s} after ${seq}`);
      seq = s;
      if (t === 'GUILD_CREATE') return post();
      if (t !== 'MESSAGE_CREATE') return undefined;
      if (d.content !== texts[seen.messages]) return fail(`message ${seen.messages} is ${JSON.stringify(d.content).slice(0, 100)}`);
      seen.messages += 1;
      talk();
      return seen.messages < texts.length ? post() : undefined;
    };
  });
}

if (typeof module !== 'undefined') module.exports = { runSession };
