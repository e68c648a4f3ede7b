/** The result as Markdown, beside the published table. */

/** Benchmark of tiny-discord (its README): events per second of a process, its own machine. */
export const PUBLISHED = {
  "GUILD_CREATE json none": { "discord.js": 976, eris: 1346, detritus: 803, "tiny-discord": 2479 },
  "GUILD_CREATE json zlib-stream": { "discord.js": 949, eris: 1403, detritus: 716, "tiny-discord": 2601 },
  "GUILD_CREATE etf none": { "discord.js": 681, eris: 705, detritus: 500, "tiny-discord": 2147 },
  "GUILD_CREATE etf zlib-stream": { "discord.js": 602, eris: 808, detritus: 514, "tiny-discord": 1943 },
  "MESSAGE_CREATE json none": { "discord.js": 29482, eris: 31759, detritus: 8081, "tiny-discord": 56917 },
  "MESSAGE_CREATE json zlib-stream": { "discord.js": 25986, eris: 22898, detritus: 5271, "tiny-discord": 39353 },
  "MESSAGE_CREATE etf none": { "discord.js": 17684, eris: 18003, detritus: 7505, "tiny-discord": 30621 },
  "MESSAGE_CREATE etf zlib-stream": { "discord.js": 15562, eris: 14559, detritus: 4005, "tiny-discord": 26631 },
};

/** Lines of at most 120 characters. */
function wrap(text) {
  const lines = [];
  for (const word of text.split(" ")) {
    if (lines.length > 0 && lines.at(-1).length + word.length < 120) lines[lines.length - 1] += ` ${word}`;
    else lines.push(word);
  }
  return lines.join("\n");
}

const count = (number) => (number ? Math.round(number).toLocaleString("en") : "–");
const table = (head, lines) => [head, head.map((_, at) => (at < 3 ? "---" : "---:")), ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

function against(row) {
  if (!row.ratio) return "–";
  const others = Object.entries(row.results).filter(([name]) => !name.startsWith("guildhall"));
  const [best] = others.sort((a, b) => b[1].cpu - a[1].cpu)[0];
  return `${row.ratio.toFixed(2)} × ${best}`;
}

function rates(result, processing, unit) {
  const rows = result.rows.filter((row) => row.processing === processing);
  const names = result.names.filter((name) => rows.some((row) => row.results[name]));
  const lines = rows.map((row) => [
    row.event, row.encoding, row.compression, ...names.map((name) => count(row.results[name]?.[unit])), ...(unit === "cpu" ? [against(row)] : []),
  ]);
  return table(["event", "encoding", "compression", ...names, ...(unit === "cpu" ? ["ours, of the best other"] : [])], lines);
}

function profiles(rows) {
  return rows.filter((row) => row.profile).map((row) => {
    const parts = Object.entries(row.profile).map(([name, shares]) => `${name}: ${shares.slice(0, 5).map(([kind, share]) => `${kind} ${share} %`).join(", ")}`);
    return `- ${row.event}, ${row.encoding}, ${row.compression}, ${row.processing === "own" ? "own processing" : "switched off"}: ${parts.join("; ")}.`;
  }).join("\n");
}

export function markdown(result) {
  const published = Object.entries(PUBLISHED).map(([mode, rates]) => [...mode.split(" "), ...["discord.js", "eris", "detritus", "tiny-discord"].map((name) => count(rates[name]))]);
  const reasons = new Map();
  for (const row of result.rows) for (const reason of Object.values(row.reasons)) reasons.set(reason, true);
  const failures = result.rows.flatMap((row) => Object.entries(row.failures).map(([name, failure]) => `- ${name}, ${row.event}, ${row.encoding}, ${row.compression}: ${failure}.`));
  const versions = Object.entries(result.versions).filter(([, version]) => version).map(([name, version]) => `${name} ${version}`);
  const parts = [
    `Commit ${result.commit}, ${result.date}, Node ${result.node}, ${result.cpu}, ${result.cores} cores, load ${result.loads.map((load) => load.toFixed(1)).join(", ")}; median of ${result.rounds} rounds; ${result.guilds} GUILD_CREATE, ${result.messages} MESSAGE_CREATE with ${result.chat}. ${versions.join(", ")}.`,
    "Events per second of CPU time, processing switched off:", rates(result, "off", "cpu"),
    "Events per second of CPU time, with each library's own processing:", rates(result, "own", "cpu"),
    "Events per second of wall time, processing switched off:", rates(result, "off", "wall"),
    "Events per second of wall time, with each library's own processing:", rates(result, "own", "wall"),
    "Published, on another machine, with other versions:", table(["event", "encoding", "compression", "discord.js", "eris", "detritus", "tiny-discord"], published),
    ...(result.rows.some((row) => row.profile) ? ["CPU profiles of the rows that are no lead of a tenth:", profiles(result.rows)] : []),
    `A dash: ${[...reasons.keys()].join("; ")}.`,
    ...(failures.length > 0 ? ["Rounds that failed:", failures.join("\n")] : []),
  ];
  return `${parts.map((part) => (part.startsWith("|") || part.startsWith("-") ? part : wrap(part))).join("\n\n")}\n`;
}
