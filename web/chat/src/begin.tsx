// Beginnings: a community without channels, a person without a community, and invites to both.

import { effect, signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, RestError } from "./rest.ts";
import { watch } from "./topics.ts";
import { type Channel, TEXT } from "./types.ts";
import { closeLayer, Icon, openLayer } from "./ui.tsx";
import * as perms from "./permissions.ts";
import * as world from "./world.ts";

const NAME_MAX = 100;
const INVITE_DAYS = 7;
const FORBIDDEN = 403;

const inHash = (): string | null => /^#\/invite\/([\w-]{2,64})$/.exec(location.hash)?.[1] ?? null;
const KEPT = "guildhall.chat.invite";
/** The invite with which the page was opened. It outlives a log-in elsewhere, in this tab. */
export const invite = signal<string | null>(inHash() ?? sessionStorage.getItem(KEPT));
effect(() => { if (invite.value) sessionStorage.setItem(KEPT, invite.value); else sessionStorage.removeItem(KEPT); });
addEventListener("hashchange", () => { const code = inHash(); if (code) invite.value = code; });

/** Whether people may create communities here; not known: they may try. */
export const mayCreateGuilds = signal<boolean | undefined>(undefined);

interface FormProps { label: string; action: string; preset?: string; hint?: string; min?: number; isFirst?: boolean; act: (text: string) => Promise<void> }

/** One field and what it is for. What the node refuses stands below it. */
function OneField({ label, action, preset = "", hint, min = 1, isFirst, act }: FormProps): VNode {
  const [text, setText] = useState(preset);
  const [fault, setFault] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setBusy(true); setFault("");
    try { await act(text.trim()); } catch (error) { setFault(error instanceof Error ? error.message : String(error)); }
    setBusy(false);
  };
  return (
    <form class="one-field" onSubmit={(event) => { event.preventDefault(); if (text.trim().length >= min) void submit(); }}>
      <label>{label}<input data-first={isFirst} maxLength={NAME_MAX} spellcheck={false} autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
      <button type="submit" class="primary" disabled={isBusy || text.trim().length < min}>{action}</button>
      {hint && !fault && <p class="quiet small">{hint}</p>}
      <div role="alert">{fault && <p class="fault small">{fault}</p>}</div>
    </form>
  );
}

const Card = ({ title, children }: { title: string; children: ComponentChildren }): VNode => <div class="nothing"><section class="begin" aria-label={title}><h2>{title}</h2>{children}</section></div>;

/** As the node writes names of text channels. */
const channelName = (text: string): string => text.toLowerCase().replace(/\s+/g, "-");

async function createChannel(guild: world.Guild, name: string): Promise<void> {
  const channel = await call<Channel>("POST", `/guilds/${guild.id}/channels`, { name: channelName(name), type: TEXT });
  closeLayer();
  world.takeChannel({ ...channel, guild_id: channel.guild_id ?? guild.id });
}

/** A guild in which this account can read nothing. */
export function NoChannel({ guild }: { guild: world.Guild }): VNode {
  watch("guilds", "members");
  const isEmpty = [...guild.channels.values()].every((channel) => channel.type !== TEXT);
  if ((world.permissionsOfGuild(guild) & perms.MANAGE_CHANNELS) !== 0n) {
    return <Card title={isEmpty ? `${guild.name} has no channel yet` : `No channel of ${guild.name} is open to you`}><p class="quiet">People write in channels. Most communities begin with one that is called “general”.</p>
      <OneField label="Name of the channel" action={isEmpty ? "Create the first channel" : "Create a channel"} preset={isEmpty ? "general" : ""} act={(name) => createChannel(guild, name)} /></Card>;
  }
  const owner = world.userOf(guild.properties.owner_id ?? "");
  return <Card title="There is no channel here that you can read"><p class="quiet">{owner ? <>Ask <b>{world.nameOf(owner, guild)}</b>, who owns {guild.name},</> : `Ask whoever manages ${guild.name}`} to create a channel, or to let you read one.</p></Card>;
}

async function createGuild(name: string): Promise<void> {
  try {
    const { id } = await call<{ id: string }>("POST", "/guilds", { name });
    closeLayer();
    world.openGuildWhenThere(id);
  } catch (error) {
    if (error instanceof RestError && error.status === FORBIDDEN) mayCreateGuilds.value = false;
    throw error;
  }
}

/** A link of this page, one of another host that ends in the code, or the code. */
const codeIn = (text: string): string => /([\w-]+)\/?$/.exec(text)?.[1] ?? "";

async function join(text: string): Promise<void> {
  const code = codeIn(text);
  const answer = await call<{ guild?: { id: string }; guild_id?: string }>("POST", `/invites/${encodeURIComponent(code)}`, {});
  closeLayer();
  invite.value = null;
  const id = answer.guild?.id ?? answer.guild_id;
  if (id) world.openGuildWhenThere(id);
}

function Operator(): VNode | null {
  const me = world.me.value;
  return me && <p class="quiet small">Or ask the operator of this node to add your account to a community. Its id is <button type="button" class="link mono" title="Copy the id" onClick={() => navigator.clipboard?.writeText(me.id).then(() => world.say("The id is copied.")).catch(world.complain)}>{me.id}</button> (<code>PUT /v1/guilds/…/members/{me.id}</code>).</p>;
}

function Ways({ isFirst }: { isFirst?: boolean }): VNode {
  return (
    <>
      <OneField label="Invite: a link or a code" action="Join" isFirst={isFirst ?? false} act={join} />
      {mayCreateGuilds.value === false ? <p class="quiet small">On this node only the operator creates communities (<code>users.create_guilds</code>).</p>
        : <OneField label="Name of a new community" action="Create a community" min={2} act={createGuild} />}
    </>
  );
}

/** An account that is in no guild. */
export function NoGuild(): VNode {
  return <Card title="You are in no community yet"><Ways /><Operator /></Card>;
}

export function AddGuild(): VNode {
  return (
    <button type="button" class="rail-add" aria-label="Add a community" title="Join or create a community"
      onClick={(event) => openLayer({ key: "add-guild", anchor: event.currentTarget, label: "Join or create a community", content: () => <div class="begin"><Ways isFirst /></div> })}><Icon name="plus" /></button>
  );
}

/** The page was opened with an invite. */
export function Invited({ code }: { code: string }): VNode {
  const [found, setFound] = useState<{ guild?: { id: string; name: string }; approximate_member_count?: number } | null>(null);
  const [fault, setFault] = useState("");
  useEffect(() => {
    let isLatest = true;
    setFound(null); setFault("");
    call<NonNullable<typeof found>>("GET", `/invites/${encodeURIComponent(code)}?with_counts=true`).then((answer) => {
      if (!isLatest) return;
      if (answer.guild && world.guilds().has(answer.guild.id)) { invite.value = null; world.openGuild(answer.guild.id); } else setFound(answer);
    }, (error: Error) => { if (isLatest) setFault(error.message); });
    return () => { isLatest = false; };
  }, [code]);
  const decline = (): void => { invite.value = null; };
  if (fault) return <Card title="This invite does not work"><p class="quiet">{fault} Invites end; ask for a new one.</p><button type="button" class="primary" onClick={decline}>Go on without it</button></Card>;
  if (!found) return <Card title="An invite"><p class="quiet">Looking it up…</p></Card>;
  const count = found.approximate_member_count;
  return (
    <Card title={`You are invited to ${found.guild?.name ?? "a community"}`}>
      {count !== undefined && <p class="quiet">{count.toLocaleString("en")} {count === 1 ? "member" : "members"}</p>}
      <div class="row"><button type="button" class="primary" onClick={() => join(code).catch((error: Error) => setFault(error.message))}>Join {found.guild?.name ?? ""}</button><button type="button" class="link" onClick={decline}>Not now</button></div>
    </Card>
  );
}

function Invite({ channel }: { channel: Channel }): VNode {
  const [link, setLink] = useState("");
  const [fault, setFault] = useState("");
  useEffect(() => {
    call<{ code: string }>("POST", `/channels/${channel.id}/invites`, { max_age: INVITE_DAYS * 86_400 })
      .then(({ code }) => setLink(`${location.origin}/chat/#/invite/${code}`), (error: Error) => setFault(error.message));
  }, []);
  return (
    <div class="begin">
      <label>Who opens this link can join for {INVITE_DAYS} days<input readOnly data-first value={link} placeholder="Making a link…" onFocus={(event) => event.currentTarget.select()} /></label>
      <div role="alert">{fault && <p class="fault small">{fault}</p>}</div>
      <button type="button" class="primary" disabled={!link} onClick={() => navigator.clipboard?.writeText(link).then(() => { closeLayer(); world.say("The link is copied."); }).catch(world.complain)}>Copy the link</button>
    </div>
  );
}

/** What one may do with the guild on the screen; nothing if there is nothing. */
export function GuildMenu({ guild }: { guild: world.Guild }): VNode {
  const granted = world.permissionsOfGuild(guild);
  const current = world.channelOf(world.channelId.value), channel = current?.guild_id === guild.id ? current : world.openable(guild)[0];
  const mayInvite = channel && (world.permissionsOf(channel) & perms.CREATE_INVITES) !== 0n, mayManage = (granted & perms.MANAGE_CHANNELS) !== 0n;
  const isMuted = world.settingsOf(guild)?.muted === true;
  const open = (anchor: HTMLElement): void => openLayer({
    key: `guild:${guild.id}`, anchor, label: `Actions on ${guild.name}`, content: () => (
      <div class="menu" role="menu">
        <button type="button" role="menuitem" onClick={() => { closeLayer(); world.markGuildRead(guild); }}><Icon name="check" />Mark everything as read</button>
        <button type="button" role="menuitem" onClick={() => { closeLayer(); world.muteGuild(guild, !isMuted).catch(world.complain); }}><Icon name={isMuted ? "bell" : "muted"} />{isMuted ? "Unmute community" : "Mute community"}</button>
        {mayInvite && <button type="button" role="menuitem" onClick={() => { closeLayer(); openLayer({ key: "invite", anchor, label: "Invite people", content: () => <Invite channel={channel} /> }); }}><Icon name="people" />Invite people</button>}
        {mayManage && <button type="button" role="menuitem" onClick={() => { closeLayer(); openLayer({ key: "new-channel", anchor, label: "Create a channel", content: () => <div class="begin"><OneField label="Name of the channel" action="Create channel" isFirst act={(name) => createChannel(guild, name)} /></div> }); }}><Icon name="plus" />Create a channel</button>}
      </div>
    ),
  });
  return <button type="button" class="icon-button" aria-label="Actions on this community" title="Actions on this community" onClick={(event) => open(event.currentTarget)}><Icon name="down" /></button>;
}
