// A page's feed: begins with the page, begins again when the time range changes, and ends with it.

import { useEffect, useMemo } from "preact/hooks";
import { Feed, range } from "./series.ts";

export function useFeed(prefixes: readonly string[]): Feed {
  const feed = useMemo(() => new Feed(prefixes), []);
  const { seconds } = range.value;
  useEffect(() => {
    feed.start();
    return () => feed.stop();
  }, [feed, seconds]);
  // Read here, so that the page is drawn again with each sample.
  void feed.changed.value;
  return feed;
}
