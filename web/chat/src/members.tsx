// Members: the list of the channel on the screen. The page subscribes to the rows in view (op 37), and draws only these.

import type { MemberListGroup } from "@guildhall/sdk";
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { watch } from "./topics.ts";
import type { Member } from "./types.ts";
import { Avatar, Icon, isNarrow, readable } from "./ui.tsx";
import { activityText, openProfile } from "./profile.tsx";
import * as world from "./world.ts";

const ROW = 44;
export const searchFocus = signal(0);

function Person({ member, guild, top }: { member: Member; guild: world.Guild; top?: number }): VNode {
  watch("presence", "members");
  const name = world.nameOf(member.user, guild);
  const presence = world.presenceOf(member.user.id, guild);
  const doing = activityText(presence);
  const isAway = !presence || presence.status === "offline";
  return (
    <button type="button" class={`member ${isAway ? "away" : ""}`} style={top === undefined ? undefined : { transform: `translateY(${top}px)` }} data-row
      onClick={(event) => openProfile(member.user, guild, event.currentTarget)}>
      <Avatar user={member.user} name={name} size={32} presence={presence?.status ?? "offline"} />
      <span class="member-text"><span class="name" style={{ color: isAway ? undefined : readable(world.colorOf(member.user.id, guild)) }}>{name}{member.user.bot && <span class="tag">bot</span>}</span>
        {doing && <span class="doing">{doing}</span>}</span>
    </button>
  );
}

export function Members(): VNode | null {
  watch("list", "guilds");
  const guild = world.guilds().get(world.guildId.value ?? "");
  void world.channelId.value;
  const [query, setQuery] = useState("");
  const [found, setFound] = useState<Member[] | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  const view = world.memberList();
  // Until its first update the list has no length.
  const list = view && view.groups.length > 0 ? view : null;

  useEffect(() => { if (searchFocus.value) input.current?.focus(); }, [searchFocus.value]);
  useEffect(() => {
    if (!guild || !query.trim()) { setFound(null); return; }
    let isStale = false;
    const timer = setTimeout(() => void world.searchMembers(guild, query.trim()).then((members) => { if (!isStale) setFound(members); }), 200);
    return () => { isStale = true; clearTimeout(timer); };
  }, [query, guild?.id]);
  useEffect(() => { box.current?.scrollTo(0, 0); setQuery(""); }, [guild?.id]);
  useLayoutEffect(() => {
    const there = box.current;
    if (!there) return;
    const observer = new ResizeObserver(() => setScroll({ top: there.scrollTop, height: there.clientHeight }));
    observer.observe(there);
    return () => observer.disconnect();
  }, [guild?.id, found === null]);
  const first = Math.max(0, Math.floor(scroll.top / ROW) - 6), last = Math.min((list?.length ?? 0) - 1, Math.ceil((scroll.top + scroll.height) / ROW) + 6);
  useEffect(() => {
    const timer = setTimeout(() => { view?.setRanges([[0, 99], [first, Math.max(first, last)]]); }, 80);
    return () => clearTimeout(timer);
  }, [Math.floor(first / 20), Math.floor(last / 20), view]);
  if (!guild) return null;

  // A header has the count of the moment it was sent; the groups are up to date.
  const counts = new Map(list?.groups.map((group) => [group.id, group.count]));
  const countOf = (group: MemberListGroup): number => counts.get(group.id) ?? group.count;
  const rows: VNode[] = [];
  for (let at = first; at <= last; at++) {
    const row = list?.rows[at];
    if (!row) rows.push(<div key={`r${at}`} class="member skeleton" style={{ transform: `translateY(${at * ROW}px)` }}><span class="blob" /><span class="bar" /></div>);
    else if ("group" in row) {
      const title = row.group.id === "online" ? "Online" : row.group.id === "offline" ? "Offline" : (guild.roles.get(row.group.id)?.name ?? "Role");
      rows.push(<h2 key={`g${row.group.id}`} class="member-group" style={{ transform: `translateY(${at * ROW}px)` }}>{title} <span>{countOf(row.group).toLocaleString("en")}</span></h2>);
    } else rows.push(<Person key={row.member.user.id} member={row.member} guild={guild} top={at * ROW} />);
  }
  const people = (): HTMLElement[] => [...(box.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  const onSearchKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      setQuery("");
      input.current?.blur();
      document.getElementById("composer")?.focus();
    } else if (event.key === "ArrowDown") { event.preventDefault(); people()[0]?.focus(); }
  };
  const move = (event: KeyboardEvent): void => {
    if (event.key === "Escape") { setQuery(""); document.getElementById("composer")?.focus(); return; }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = people();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = at === 0 && event.key === "ArrowUp" ? input.current : all[at + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) { event.preventDefault(); next.focus(); next.scrollIntoView({ block: "nearest" }); }
  };
  return (
    <div class="members" role={isNarrow.value ? "main" : "complementary"} aria-label="Members">
      <div class="member-head">
        <div class="search"><Icon name="search" /><input ref={input} type="search" placeholder="Find a member" aria-label="Find a member" value={query}
          onInput={(event) => setQuery(event.currentTarget.value)} onKeyDown={onSearchKey} /></div>
        <p class="quiet counts">{list ? <><b>{list.onlineCount.toLocaleString("en")}</b> online · {list.memberCount.toLocaleString("en")} members</> : `${guild.memberCount.toLocaleString("en")} members`}</p>
      </div>
      {found ? (
        <div class="member-scroll found" ref={box} onKeyDown={move}>
          {found.length === 0 ? <p class="empty">Nobody’s name begins with “{query.trim()}”{guild.memberCount > guild.members.size ? ", and nobody that this page has seen has it in the middle." : " or has it in the middle."}</p> : found.map((member) => <Person key={member.user.id} member={member} guild={guild} />)}
        </div>
      ) : (
        <div class="member-scroll" ref={box} tabIndex={-1} onKeyDown={move} onScroll={(event) => setScroll({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}>
          <div class="member-rows" style={{ height: `${(list?.length ?? 20) * ROW}px` }}>{rows}</div>
        </div>
      )}
    </div>
  );
}
