// Arms of the lab: ways to write a stream, as one line of text (docs/lab.md "Arms").

/** Parameters that a name leaves out, as the node prints them. A test compares with a node. */
const DEFAULTS: Record<string, string> = { "zlib": "level=6,window=15,mem=8", "zstd": "level=6,window=18,chain=16,hash=16,block=16384", "zstd-once": "level=3" };

/** An arm without the parameters that have their defaults. */
export function shortArm(arm: string): string {
  const [codec = "", parameters = ""] = arm.split(/:(.*)/s);
  const defaults = new Set(DEFAULTS[codec]?.split(","));
  const own = parameters.split(",").filter((parameter) => parameter && !defaults.has(parameter));
  return own.length > 0 ? `${codec}:${own.join(",")}` : codec;
}

/** Names of arms that differ from each other, each as short as it can be. */
export function armNames(arms: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return arms.map((arm) => {
    const name = shortArm(arm);
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return before > 0 ? `${name} (${before + 1})` : name;
  });
}

export const SUGGESTED_ARMS = ["zlib", "zlib:level=9", "zstd", "zstd:level=3", "zstd:level=9", "zstd-once", "shared-match", "prepared"];
