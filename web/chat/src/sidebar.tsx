// Side bar: guilds, their channels with unread marks, threads, and the members of each voice room.

import { signal } from "@preact/signals";
import { AddGuild, GuildMenu } from "./begin.tsx";
import type { VNode } from "preact";
import { watch } from "./topics.ts";
import { type Channel, isVoice, type Member } from "./types.ts";
import { Avatar, Icon, initials } from "./ui.tsx";
import { openProfile } from "./profile.tsx";
import * as world from "./world.ts";

/** On narrow screens one of these is shown. */
export const view = signal<"channels" | "chat" | "members" | "meter" | "search">("chat");

export function Rail(): VNode {
  watch("guilds", "marks");
  let directMentions = 0;
  for (const channel of world.directs().values()) directMentions += world.mentionsIn(channel.id);
  return (
    <nav class="rail" aria-label="Guilds">
      <button type="button" class={`rail-item home ${world.guildId.value === null ? "current" : ""}`} aria-current={world.guildId.value === null}
        aria-label={directMentions ? `Direct messages, ${directMentions} new` : "Direct messages"} title="Direct messages" onClick={world.openHome}>
        <span class="tile"><Icon name="mail" /></span>{directMentions > 0 && <span class="badge" aria-hidden="true">{directMentions}</span>}
      </button>
      {world.guildList().map((guild) => {
        const marks = world.guildMarks(guild);
        const isCurrent = world.guildId.value === guild.id;
        const label = `${guild.name}${marks.mentions ? `, ${marks.mentions} mentions` : marks.unread ? ", unread" : ""}`;
        return (
          <button type="button" key={guild.id} class={`rail-item ${isCurrent ? "current" : ""}`} aria-current={isCurrent} aria-label={label} title={guild.name} onClick={() => world.openGuild(guild.id)}>
            <span class="tile" data-text={initials(guild.name)} />
            {marks.mentions > 0 ? <span class="badge" aria-hidden="true">{marks.mentions}</span> : marks.unread && !isCurrent && <span class="pip" />}
          </button>
        );
      })}
      <AddGuild />
    </nav>
  );
}

function select(channel: Channel): void {
  world.openChannel(channel.id);
  view.value = "chat";
}

function ChannelRow({ channel, depth = 0 }: { channel: Channel; depth?: number }): VNode {
  watch("marks", "guilds");
  const isCurrent = world.channelId.value === channel.id;
  const unread = !isVoice(channel) && world.isUnread(channel) && !isCurrent && !world.isMuted(channel);
  const mentions = world.mentionsIn(channel.id);
  const name = world.channelName(channel);
  return (
    <button type="button" class={`channel ${isCurrent ? "current" : ""} ${unread ? "unread" : ""} ${depth ? "nested" : ""}`} aria-current={isCurrent ? "page" : undefined}
      data-channel={name} aria-label={`${name}${mentions ? `, ${mentions} mentions` : unread ? ", unread" : ""}`} onClick={() => select(channel)}>
      <Icon name={isVoice(channel) ? "voice" : depth ? "thread" : "hash"} /><span class="name">{name}</span>
      {mentions > 0 ? <span class="badge">{mentions}</span> : unread && <span class="pip" />}
    </button>
  );
}

function VoiceRoom({ channel }: { channel: Channel }): VNode {
  watch("voice", "members", "guilds");
  const guild = world.guildOf(channel)!;
  const there = [...guild.voiceStates.values()].filter((state) => state.channel_id === channel.id);
  world.askMembersOf(guild, there.map((state) => state.user_id));
  return (
    <div class="voice-room">
      <div class="channel room"><Icon name="voice" /><span class="name">{channel.name}</span>{there.length > 0 && <span class="count" title="People in this room">{there.length}</span>}</div>
      {there.length > 0 && (
        <ul class="voice-people" aria-label={`In ${channel.name}`}>
          {there.slice(0, 12).map((state) => {
            const member: Member | undefined = guild.members.get(state.user_id);
            const user = member?.user ?? world.userOf(state.user_id);
            const name = user ? world.nameOf(user, guild) : "…";
            return (
              <li key={state.user_id}>
                <button type="button" onClick={(event) => user && openProfile(user, guild, event.currentTarget)}>
                  <Avatar user={{ id: state.user_id }} name={name} size={20} /><span class="name">{name}</span>
                  {(state.self_mute || state.mute) && <span class="quiet">muted</span>}
                </button>
              </li>
            );
          })}
          {there.length > 12 && <li class="quiet more">{there.length - 12} more</li>}
        </ul>
      )}
    </div>
  );
}

export function Channels(): VNode {
  watch("guilds", "marks", "voice", "members");
  const guild = world.guilds().get(world.guildId.value ?? "");
  if (!guild) {
    const directs = [...world.directs().values()].sort((a, b) => (a.last_message_id ?? a.id).length - (b.last_message_id ?? b.id).length || ((a.last_message_id ?? a.id) < (b.last_message_id ?? b.id) ? 1 : -1));
    return (
      <nav class="channels" aria-label="Direct messages">
        <h2 class="guild-name">Direct messages</h2>
        <div class="scroll">
          {directs.length === 0 && <p class="empty">Direct messages are listed here. Open somebody’s profile and choose “Message”.</p>}
          {directs.map((channel) => {
            const other = channel.recipients?.[0];
            const unread = world.isUnread(channel) && world.channelId.value !== channel.id;
            const mentions = world.mentionsIn(channel.id);
            return (
              <button type="button" key={channel.id} class={`channel direct ${world.channelId.value === channel.id ? "current" : ""} ${unread ? "unread" : ""}`} onClick={() => select(channel)}>
                {other && <Avatar user={other} name={world.channelName(channel)} size={24} presence={world.presenceOf(other.id)?.status} />}
                <span class="name">{world.channelName(channel)}</span>{mentions > 0 && <span class="badge">{mentions}</span>}
              </button>
            );
          })}
        </div>
      </nav>
    );
  }
  return (
    <nav class="channels" aria-label={`Channels of ${guild.name}`}>
      <div class="guild-head"><h2 class="guild-name" title={guild.name}>{guild.name}</h2><GuildMenu guild={guild} /></div>
      <div class="scroll">
        {world.channelTree(guild).map(({ category, channels }) => (
          <section key={category?.id ?? "none"} aria-label={category?.name ?? "Channels"}>
            {category && <h3>{category.name}</h3>}
            {channels.map((channel) => (isVoice(channel) ? <VoiceRoom key={channel.id} channel={channel} /> : (
              <div key={channel.id}>
                <ChannelRow channel={channel} />
                {world.threadsOf(guild, channel.id).slice(-8).map((thread) => <ChannelRow key={thread.id} channel={thread} depth={1} />)}
              </div>
            )))}
          </section>
        ))}
      </div>
    </nav>
  );
}
