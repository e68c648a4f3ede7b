'use strict';
// Lines: what every Node client of the suite speaks with the runner, one JSON object per line.
//
// Owns        stdout (events), stdin (commands), the run's settings, hiding of optional modules.
// Not here    any gateway or library word: a client file translates its library to these events.
// Spec        ../README.md "The line protocol".
const Module = require('node:module');
const readline = require('node:readline');
const fs = require('node:fs');

/** The settings of this run: a JSON file named by the first argument. */
const settings = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));

function emit(ev, fields = {}) {
  process.stdout.write(`${JSON.stringify({ ev, ...fields })}\n`);
}

/** Something the library did not like. The runner decides whether a cut socket explains it. */
function problem(what, detail) {
  const text = detail instanceof Error ? detail.stack || String(detail) : String(detail);
  emit('problem', { what, detail: text.slice(0, 2000) });
}

/**
 * Makes `require` of these modules fail as if they were not installed: it is by their presence
 * that libraries choose an encoding or a compression.
 */
function hideFromRequire(names) {
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function hidden(request, ...rest) {
    if (names.includes(request)) {
      const error = new Error(`Cannot find module '${request}' (hidden by the suite)`);
      error.code = 'MODULE_NOT_FOUND';
      throw error;
    }
    return resolve.call(this, request, ...rest);
  };
}

/** The same for `import()`. */
function hideFromImport(names) {
  const source = `
    const names = ${JSON.stringify(names)};
    export async function resolve(specifier, context, next) {
      if (names.includes(specifier)) {
        const error = new Error('Cannot find package ' + specifier + ' (hidden by the suite)');
        error.code = 'ERR_MODULE_NOT_FOUND';
        throw error;
      }
      return next(specifier, context);
    }`;
  Module.register(`data:text/javascript,${encodeURIComponent(source)}`);
}

const HELD_AFTER_MS = 15_000;

/**
 * Runs `handlers[cmd](fields)` for each command line. A failed command is a problem, not a crash.
 * After `quit` nothing holds the process: it must end by itself, and the runner waits for that. What does hold it after
 * a while is told, for the runner's report.
 */
function listen(handlers) {
  const input = readline.createInterface({ input: process.stdin });
  input.on('line', async (line) => {
    const { cmd, ...fields } = JSON.parse(line);
    if (cmd === 'quit') {
      input.close();
      process.stdin.unref?.();
      setTimeout(() => emit('held', { by: process.getActiveResourcesInfo() }), HELD_AFTER_MS).unref();
    }
    try {
      await handlers[cmd](fields);
    } catch (error) {
      problem(`command ${cmd}`, error);
    }
  });
}

process.on('unhandledRejection', (error) => {
  problem('unhandled rejection', error);
  process.exitCode = 1;
});
process.on('uncaughtException', (error) => {
  problem('uncaught exception', error);
  process.exitCode = 1;
});
process.on('warning', (warning) => {
  // Deprecations are between the library and Node; no server can cause one.
  if (warning.name !== 'DeprecationWarning') problem('process warning', warning);
});

module.exports = { settings, emit, problem, hideFromRequire, hideFromImport, listen };
