// A bot without a gateway connection: it receives interactions by HTTP, and verifies their signatures. It needs nothing
// but Node. See ../../README.md.
//
//   TOKEN='…' URL='https://bot.example.net/' PORT=3000 node bot.mjs
import { createPublicKey, verify } from 'node:crypto';
import { createServer } from 'node:http';

const { TOKEN, API = 'http://127.0.0.1:8080/api', PORT = '3000' } = process.env;
const { URL: ownUrl = `http://127.0.0.1:${PORT}/` } = process.env;

const PING = 1;
const COMMAND = 2;
const COMPONENT = 3;
const PONG = { type: 1 };
const MESSAGE = 4;
const UPDATE = 7;
const EPHEMERAL = 64;
const BODY_BYTES_MAX = 1 << 20;
/** A request that was signed longer ago is one that somebody has recorded. */
const AGE_SECONDS_MAX = 60;

const commands = [
  {
    name: 'roll',
    description: 'Rolls a die',
    options: [{ type: 4, name: 'sides', description: 'Sides of the die, 6 by default', min_value: 2, max_value: 100 }],
  },
  { name: 'about', description: 'Describes this bot to you alone' },
];

async function api(method, path, body) {
  const headers = { Authorization: `Bot ${TOKEN}`, 'Content-Type': 'application/json' };
  const answer = await fetch(`${API}/v10${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`);
  return answer.json();
}

/** An Ed25519 key from the 32 bytes of `verify_key`: Node takes it in the form of RFC 8410. */
function keyOf(hex) {
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(hex, 'hex')]);
  return createPublicKey({ key: der, format: 'der', type: 'spki' });
}

const application = await api('GET', '/applications/@me');
const key = keyOf(application.verify_key);

/** Whether the node has signed this request, now. */
function isSigned(headers, body) {
  const { 'x-signature-ed25519': signature = '', 'x-signature-timestamp': timestamp = '' } = headers;
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  const signed = Buffer.concat([Buffer.from(timestamp), body]);
  // A text that is no hexadecimal becomes a shorter signature, which is wrong as well.
  return age <= AGE_SECONDS_MAX && verify(null, signed, key, Buffer.from(signature, 'hex'));
}

/** A message with a new roll, and a button for the next one. The button's id holds all that its press needs. */
function rolled(user, sides) {
  const button = { type: 2, style: 1, label: 'Again', custom_id: `roll:${sides}` };
  return {
    content: `${user.username} rolled ${1 + Math.floor(Math.random() * sides)} of ${sides}`,
    components: [{ type: 1, components: [button] }],
  };
}

/** The callback to an interaction; undefined: this bot does not know it. */
function answer({ type, data, member, user = member?.user }) {
  if (type === PING) return PONG;
  if (type === COMMAND && data.name === 'roll') {
    const sides = data.options?.find(({ name }) => name === 'sides')?.value ?? 6;
    return { type: MESSAGE, data: rolled(user, sides) };
  }
  if (type === COMMAND && data.name === 'about') {
    return { type: MESSAGE, data: { content: 'This bot rolls dice.', flags: EPHEMERAL } };
  }
  if (type === COMPONENT && data.custom_id.startsWith('roll:')) {
    return { type: UPDATE, data: rolled(user, Number(data.custom_id.slice('roll:'.length))) };
  }
  return undefined;
}

async function bodyOf(request) {
  const pieces = [];
  let bytes = 0;
  for await (const piece of request) {
    bytes += piece.length;
    if (bytes > BODY_BYTES_MAX) throw new Error('the body is too large');
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

const server = createServer(async (request, response) => {
  try {
    const body = await bodyOf(request);
    if (request.method !== 'POST' || !isSigned(request.headers, body)) {
      // Others may not use the bot. The node tries this once, when it learns the URL.
      response.writeHead(401).end('invalid request signature');
      return;
    }
    const callback = answer(JSON.parse(body));
    response.writeHead(callback ? 200 : 400, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(callback ?? { message: 'unknown interaction' }));
  } catch (error) {
    console.error(error);
    response.writeHead(400).end();
  }
});

server.listen(Number(PORT), async () => {
  await api('PUT', `/applications/${application.id}/commands`, commands);
  // The node sends a PING to the URL before it answers.
  await api('PATCH', '/applications/@me', { interactions_endpoint_url: ownUrl });
  console.log('ready');
});
