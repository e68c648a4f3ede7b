// Log-in: one press in a demo, a token otherwise.

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { signOnLink } from "./signon.ts";

export interface Settings {
  gateway_url: string; visitors: boolean; version: string; streams: string;
  /** The operator's sign-on, if there is one. */
  sign_on_url?: string | null;
  /** Whether people may create guilds. */
  create_guilds?: boolean;
}

export function Login({ settings, error, onToken }: { settings: Settings | null; error: string; onToken: (token: string) => void }): VNode {
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState("");
  const visit = async (): Promise<void> => {
    setBusy(true); setFault("");
    try {
      const response = await fetch("/chat/visitors", { method: "POST" });
      if (response.ok) onToken(((await response.json()) as { token: string }).token);
      else if (response.status === 429) setFault("Many accounts were made from your address lately. Wait a minute, and try again.");
      else setFault("This demo has no room for more visitors now. Log in with a token instead, or try again later.");
    } catch { setFault("The node cannot be reached. Is it running?"); }
    setBusy(false);
  };
  const shown = fault || error;
  return (
    <main class="login">
      <div class="card">
        <h1>Guildhall</h1>
        <p class="lead">{settings?.visitors ? "A community to look at, and to talk to. Its members are simulated; its visitors are people, like you." : "Chat with this node’s communities."}</p>
        {settings?.visitors && <button type="button" class="primary large" disabled={isBusy} onClick={() => void visit()}>{isBusy ? "Making your account…" : "Join as a visitor"}</button>}
        {settings?.sign_on_url && <a class={settings.visitors ? "large sign-on" : "large sign-on primary"} href={signOnLink(settings.sign_on_url)}>Log in at {new URL(settings.sign_on_url, location.origin).host}</a>}
        <div role="alert">{shown && <p class="fault">{shown}</p>}</div>
        <form onSubmit={(event) => { event.preventDefault(); if (token.trim()) onToken(token.trim()); }}>
          <label for="token">{settings?.visitors || settings?.sign_on_url ? "Or log in with a user token" : "User token"}</label>
          <div class="row"><input id="token" type="password" autocomplete="off" spellcheck={false} value={token} onInput={(event) => setToken(event.currentTarget.value)} />
            <button type="submit" class={settings?.visitors || settings?.sign_on_url ? "" : "primary"} disabled={!token.trim()}>Log in</button></div>
        </form>
        <p class="quiet small">{settings?.visitors ? "The token of the demo’s own member is in its demo.json (user_token)." : "A backend makes one: POST /v1/users/{id}/tokens."} It stays in this browser.</p>
      </div>
    </main>
  );
}
