// The session of `session.js` by `ws`, with the compression options that the settings name. Prints what was seen.
'use strict';

const fs = require('fs');
const WebSocket = require('ws');
const { runSession } = require('./session.js');

const settings = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
let socket;
const open = (url) => {
  // The client compresses every message, however short.
  const deflate = settings.deflate === null ? false : { threshold: 0, ...settings.deflate };
  socket = new WebSocket(url, { perMessageDeflate: deflate });
  let raw;
  socket.on('upgrade', (response) => {
    raw = response.socket;
    socket.answer = response.headers['sec-websocket-extensions'] ?? '';
  });
  socket.wireBytes = () => raw.bytesRead;
  return socket;
};

runSession(open, settings).then(
  (seen) => console.log(JSON.stringify({ ...seen, answer: socket.answer, wire_bytes: socket.wireBytes() })),
  (error) => {
    console.log(JSON.stringify({ error: error.message }));
    process.exitCode = 1;
  },
);
