'use strict';
// Decompresses one stream after the other: fzstd, Node's own zlib, or Node's own zstd, by the first argument.
//
// stdin: 's' begins a stream; 'p', a length in four bytes and as many bytes are a piece of it; 'e' ends a message. Each 'e'
// is answered by a length in four bytes and what has come out since the last one, which must be the whole message.
const zlib = require('node:zlib');
const { Decompress } = require('fzstd');

/** Node's streams answer later; the next piece waits until this one is through. */
function nodeStream(make) {
  return () => {
    const stream = make();
    let out = [];
    stream.on('data', (chunk) => out.push(chunk));
    stream.on('error', (error) => {
      console.error(error);
      process.exit(1);
    });
    return {
      push: (piece) => new Promise((resolve) => stream.write(piece, resolve)),
      // The output of a write is emitted at the latest in the next turn.
      take: () => new Promise((resolve) => setImmediate(() => resolve(Buffer.concat(out.splice(0))))),
    };
  };
}

const KINDS = {
  fzstd: () => {
    let out = [];
    const stream = new Decompress((chunk) => out.push(Buffer.from(chunk)));
    return { push: (piece) => stream.push(piece), take: () => Buffer.concat(out.splice(0)) };
  },
  'zlib.createInflate': nodeStream(() => zlib.createInflate()),
  'zlib.createZstdDecompress': nodeStream(() => zlib.createZstdDecompress()),
};

async function main() {
  const begin = KINDS[process.argv[2]];
  let input = Buffer.alloc(0);
  let stream = null;
  for await (const chunk of process.stdin) {
    input = Buffer.concat([input, chunk]);
    while (input.length > 0) {
      const kind = String.fromCharCode(input[0]);
      let used = 1;
      if (kind === 's') {
        stream = begin();
      } else if (kind === 'p') {
        if (input.length < 5 || input.length < 5 + input.readUInt32BE(1)) break;
        used = 5 + input.readUInt32BE(1);
        await stream.push(input.subarray(5, used));
      } else {
        const message = await stream.take();
        const head = Buffer.alloc(4);
        head.writeUInt32BE(message.length);
        process.stdout.write(Buffer.concat([head, message]));
      }
      input = input.subarray(used);
    }
  }
}

main();
