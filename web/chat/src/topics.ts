// Topics: what components watch. Data lives in plain maps; a change touches its topic, and all watchers render once per frame.

import { batch, signal, type Signal } from "@preact/signals";

const topics = new Map<string, Signal<number>>();
const dirty = new Set<string>();
let isScheduled = false;

function topic(name: string): Signal<number> {
  let found = topics.get(name);
  if (!found) topics.set(name, (found = signal(0)));
  return found;
}

/** Renders the calling component again after the topic was touched. Its children render then only if their properties changed, or they watch
 * the topic themselves. Returns a number that is another one after each touch. */
export function watch(...names: string[]): number {
  return names.reduce((sum, name) => sum + topic(name).value, 0);
}

/** Marks a topic as changed. Watchers render in the next frame; in a hidden tab, where there are none, within a second. */
export function touch(name: string): void {
  dirty.add(name);
  if (isScheduled) return;
  isScheduled = true;
  if (document.hidden) setTimeout(flush, 500);
  else requestAnimationFrame(flush);
}

function flush(): void {
  isScheduled = false;
  const names = [...dirty];
  dirty.clear();
  batch(() => {
    for (const name of names) topic(name).value++;
  });
}
