// Sign-on: the operator's page returns the token in the fragment of this page's address, which browsers send to no server.
//
// Invariants  a token that this page did not request is not taken: `state` is a random number of this tab.

const STATE = "guildhall.chat.sign-on";

/** The link to the sign-on: with `return_to`, this page, and `state`, which comes back with the token. */
export function signOnLink(url: string): string {
  const state = sessionStorage.getItem(STATE) ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  sessionStorage.setItem(STATE, state);
  const link = new URL(url, location.origin);
  link.searchParams.set("return_to", `${location.origin}/chat/`);
  link.searchParams.set("state", state);
  return link.href;
}

/** What came back: `#token=…&state=…`, or `#error=…&state=…`. The address keeps nothing of it. */
export function takeSignOn(): { token?: string; fault?: string } {
  const found = new URLSearchParams(location.hash.slice(1));
  const token = found.get("token"), error = found.get("error");
  if (token === null && error === null) return {};
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  const isOurs = found.get("state") !== null && found.get("state") === sessionStorage.getItem(STATE);
  sessionStorage.removeItem(STATE);
  if (!isOurs) return { fault: "This log-in was not begun here. Log in again." };
  return token ? { token } : { fault: error ? `The sign-on refused: ${error.slice(0, 200)}` : "The sign-on sent no token." };
}
