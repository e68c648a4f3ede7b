// Polling: a page loads again every two seconds while it is open, and the link shows whether the node answers.

import { useEffect } from "preact/hooks";
import { link, type Refused } from "./api.ts";

const EVERY_MS = 2_000;

/** Loads now and every two seconds. `keys` as those of an effect. */
export function usePoll(load: () => Promise<void>, keys: readonly unknown[]): void {
  useEffect(() => {
    let timer = 0;
    let isOpen = true;
    const again = async () => {
      await load();
      if (isOpen) timer = window.setTimeout(() => void again(), EVERY_MS);
    };
    void again();
    return () => { isOpen = false; clearTimeout(timer); };
  }, keys);
}

/** Shows that the node has answered. */
export function answered(): void {
  if (link.peek().state !== "live") link.value = { state: "live" };
}

/** Shows that the node did not answer, if that is the fault. */
export function refused(fault: Refused): void {
  if (fault.status !== 0) return;
  const last = link.peek();
  link.value = { state: "broken", since: last.state === "broken" ? last.since : Date.now(), retryAt: Date.now() + EVERY_MS };
}
