// Profile: an account’s names, roles and activity, in a layer next to the element that was pressed.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as interact from "./interact.ts";
import { watch } from "./topics.ts";
import type { Presence, User } from "./types.ts";
import { Avatar, closeLayer, openLayer, STATUS } from "./ui.tsx";
import * as world from "./world.ts";

export function activityText(presence: Presence | undefined): string {
  const activity = presence?.activities?.[0];
  if (!activity) return "";
  if (activity.type === 4) return String(activity["state"] ?? "");
  if (activity.type === 2) return `Listening to ${String(activity["details"] ?? activity.name)}`;
  return `Playing ${activity.name}`;
}

export function openProfile(user: User, guild: world.Guild | undefined, anchor: HTMLElement): void {
  if (guild) world.askMembersOf(guild, [user.id]);
  openLayer({ key: `profile:${user.id}`, anchor, label: `Profile of ${world.nameOf(user, guild)}`, content: () => <Profile user={user} guild={guild} /> });
}

function Profile({ user, guild }: { user: User; guild: world.Guild | undefined }): VNode {
  watch("members", "presence");
  const member = guild?.members.get(user.id);
  const name = world.nameOf(user, guild);
  const presence = world.presenceOf(user.id, guild);
  const isMe = user.id === world.me.value?.id;
  const status = isMe ? "online" : (presence?.status ?? "offline");
  const roles = (member?.roles ?? []).map((id) => guild?.roles.get(id)).filter((role) => role !== undefined).sort((a, b) => b.position - a.position);
  const doing = activityText(presence);
  return (
    <div class="profile">
      <div class="profile-head">
        <Avatar user={user} name={name} size={56} presence={status} />
        <div><h3>{name}</h3><p class="quiet">{user.username}{user.bot ? " · bot" : ""}</p></div>
      </div>
      <p>{STATUS[status] ?? status}{doing && <span class="quiet"> · {doing}</span>}</p>
      {roles.length > 0 && <ul class="roles" aria-label="Roles">{roles.map((role) => <li key={role.id}><span class="swatch" style={{ background: role.color ? `#${role.color.toString(16).padStart(6, "0")}` : "var(--text-2)" }} />{role.name}</li>)}</ul>}
      {member && <p class="quiet">Member since {new Date(member.joined_at).toLocaleDateString([], { dateStyle: "medium" })}</p>}
      <p class="quiet"><button type="button" class="link mono" title="Copy the id" onClick={() => navigator.clipboard?.writeText(user.id).then(() => world.say("The id is copied.")).catch(world.complain)}>{user.id}</button></p>
      {!isMe && !user.bot && <button type="button" class="primary" onClick={() => { closeLayer(); world.openDirect(user).catch(world.complain); }}>Message</button>}
      <Commands user={user} />
    </div>
  );
}

/** Commands of applications on the account, in the channel on the screen. */
function Commands({ user }: { user: User }): VNode | null {
  const channelId = world.channelId.value;
  const [found, setFound] = useState<interact.Offered[]>([]);
  useEffect(() => { if (channelId) interact.commandsOn(channelId, interact.OF_USER).then(setFound, () => {}); }, [user.id]);
  if (!channelId || found.length === 0) return null;
  return (
    <ul class="profile-commands" aria-label="Commands">
      {found.map(({ command, application }) => <li key={command.id}><button type="button" class="plain-button" title={`Of ${interact.nameOf(application)}`} onClick={() => { closeLayer(); interact.invokeOn(channelId, command, application, user.id).catch(world.complain); }}>{command.name}</button></li>)}
    </ul>
  );
}
