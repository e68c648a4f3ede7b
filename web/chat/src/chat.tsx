// Chat: the messages of a channel and the box to write in.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useCompletion, write } from "./complete.tsx";
import { CommandForm } from "./command.tsx";
import { decode, encode } from "./compose.ts";
import * as interact from "./interact.ts";
import { CustomEmoji, isJustEmoji, Markdown, type Names } from "./markdown.tsx";
import * as perms from "./permissions.ts";
import { EmojiPicker } from "./picker.tsx";
import { openProfile } from "./profile.tsx";
import { Components, Embeds, Files, isBlank, ownFiles, preview, Stickers } from "./rich.tsx";
import { view } from "./sidebar.tsx";
import { touch, watch } from "./topics.ts";
import { type Channel, type Emoji, isDirect, isEphemeral, isLoading, isNewer, isThread, type Message, type User } from "./types.ts";
import { Avatar, closeLayer, day, exactTime, Icon, IconButton, layer, openLayer, readable, time } from "./ui.tsx";
import * as world from "./world.ts";
import { bytes } from "./meter.ts";

const NEAR_BOTTOM = 60, NEAR_TOP = 400;
const CONTENT_MAX = 2000;
/** The most that a node takes. */
const FILES_MAX = 10, FILE_BYTES_MAX = 26_214_400;
/** How long a channel may take to show a message that one jumps to. */
const LANDING_MS = 3000;
/** Type of a thread's first message: it holds the message at which the thread began. */
const STARTER = 21;
/** So long an application may take for an answer that it promised. */
const ANSWER_MS = 15 * 60_000;

/** What the composer of a channel answers to or changes. */
const replying = signal<Message | null>(null);
const editing = signal<string | null>(null);
const drafts = new Map<string, string>();

export function namesFor(channel: Channel | undefined, message?: Message): Names {
  const guild = world.guildOf(channel);
  const userOf = (id: string): User | undefined => guild?.members.get(id)?.user ?? message?.mentions.find((user) => user.id === id) ?? world.userOf(id);
  return {
    user(id) {
      const user = userOf(id);
      if (!user && guild) world.askMembersOf(guild, [id]);
      return user ? world.nameOf(user, guild) : "unknown";
    },
    role: (id) => guild?.roles.get(id),
    channel: (id) => { const found = world.channelOf(id); return found && world.permissionsOf(found) ? world.channelName(found) : undefined; },
    onUser(id, anchor) { const user = userOf(id); if (user) openProfile(user, guild, anchor); },
    onChannel: world.openChannel,
  };
}

function systemText(message: Message, name: string): string | null {
  switch (message.type) {
    case 0: case 19: case 20: case 21: case 23: return null;
    case 1: return `${name} added somebody to the group.`;
    case 2: return `${name} removed somebody from the group.`;
    case 4: return `${name} changed the name to ${message.content}.`;
    case 6: return `${name} pinned a message.`;
    case 7: return `${name} joined.`;
    case 18: return `${name} started a thread: ${message.content}`;
    default: return `${name}: ${message.content || `a message of kind ${message.type}`}`;
  }
}

/** The message that a row shows. Null: it was deleted. */
const shownOf = (message: Message): Message | null => (message.type === STARTER ? (message.referenced_message ?? null) : message);

function pickEmoji(key: string, verb: string, anchor: HTMLElement, channel: Channel | undefined, onPick: (emoji: Emoji) => void, back = anchor): void {
  openLayer({ key, anchor, back, label: "Emoji", content: () => <EmojiPicker verb={verb} guild={world.guildOf(channel)} onPick={(emoji) => { closeLayer(); onPick(emoji); }} /> });
}

function pickReaction(message: Message, anchor: HTMLElement): void {
  pickEmoji(`react:${message.id}`, "React with", anchor, world.channelOf(message.channel_id), (emoji) => void world.toggleReaction(message, emoji));
}

const focusComposer = (): void => document.getElementById("composer")?.focus();
const rowOf = (id: string): HTMLElement | null => document.querySelector<HTMLElement>(`.message[data-id="${CSS.escape(id)}"]`);
/** The row beside one, past dividers. */
function beside(row: Element, by: "previousElementSibling" | "nextElementSibling"): HTMLElement | null {
  let next = row[by];
  while (next && !next.classList.contains("message")) next = next[by];
  return next as HTMLElement | null;
}

/** The focus does not go with a message: it moves to the next one, or to the message box. */
world.beforeRemoval.run = (ids) => {
  const opener = layer.peek()?.anchor.closest<HTMLElement>(".message");
  if (opener && ids.includes(opener.dataset.id ?? "")) closeLayer();
  let row = document.activeElement?.closest<HTMLElement>(".message") ?? null;
  if (!row || !ids.includes(row.dataset.id ?? "")) return;
  while (row && ids.includes(row.dataset.id ?? "")) row = beside(row, "nextElementSibling");
  if (row) row.focus({ preventScroll: true }); else focusComposer();
};

function askDelete(message: Message, anchor: HTMLElement): void {
  const text = preview(message, namesFor(world.channelOf(message.channel_id), message));
  openLayer({
    key: `delete:${message.id}`, anchor, label: "Delete the message", content: () => (
      <div class="ask">
        <p>Delete this message? It cannot be brought back.</p>
        <blockquote>{text}</blockquote>
        <div class="row"><button type="button" class="danger" data-first onClick={() => { closeLayer(); world.deleteMessage(message).catch(world.complain); }}>Delete message</button><button type="button" onClick={closeLayer}>Cancel</button></div>
      </div>
    ),
  });
}

function EditBox({ message }: { message: Message }): VNode {
  const guild = world.guildOf(world.channelOf(message.channel_id));
  const box = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState("");
  const completion = useCompletion(box, guild, message.id, setText);
  useLayoutEffect(() => {
    const written = decode(message.content, guild, completion.chosen);
    setText(written);
    const area = box.current;
    if (area) { area.value = written; area.focus(); area.setSelectionRange(written.length, written.length); }
  }, []);
  useLayoutEffect(() => { const area = box.current; if (area) { area.style.height = "0"; area.style.height = `${Math.min(area.scrollHeight + 2, 300)}px`; } }, [text]);
  const close = (): void => { editing.value = null; focusComposer(); };
  const save = (): void => {
    if (!text.trim()) return;
    world.editMessage(message, encode(text.trim(), guild, completion.chosen)).then(close, world.complain);
  };
  return (
    <div class="edit-box">
      {completion.list}
      <textarea ref={box} aria-label="Edit the message" value={text} {...completion.attributes}
        onInput={(event) => { setText(event.currentTarget.value); completion.suggest(event.currentTarget.value, event.currentTarget.selectionStart); }}
        onKeyDown={(event) => { if (completion.handleKey(event)) return; if (event.key === "Escape") { event.preventDefault(); close(); } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); save(); } }} />
      <p class="quiet small">Escape to <button type="button" class="link" onClick={close}>cancel</button> · Enter to <button type="button" class="link" onClick={save}>save</button></p>
    </div>
  );
}

interface RowProps { message: Message; isFirst: boolean; version: number; isEditing: boolean }

// Renders again when a property or a watched topic changes, and not with its list.
function Row({ message, isFirst, isEditing }: RowProps): VNode {
  watch("members");
  const channel = world.channelOf(message.channel_id);
  const guild = world.guildOf(channel);
  const said = shownOf(message), isStarter = message.type === STARTER;
  const author = (said ?? message).author;
  const names = namesFor(channel, said ?? message);
  const name = world.nameOf(author, guild);
  const isMine = message.author.id === world.me.value?.id && !isStarter;
  const granted = world.permissionsOf(channel);
  const system = said ? systemText(message, name) : "The message at which this thread began was deleted.";
  const isMention = message.mention_everyone || message.mentions.some((user) => user.id === world.me.value?.id);
  const isOnlyHere = isEphemeral(message);
  const mayDelete = !isStarter && !isOnlyHere && (isMine || (granted & perms.MANAGE_MESSAGES) !== 0n);
  const mayPin = !isStarter && !isOnlyHere && (granted & (perms.PIN_MESSAGES | perms.MANAGE_MESSAGES)) !== 0n;
  const mayThread = !isOnlyHere && guild && channel && !isThread(channel) && !message.thread && !guild.threads.has(message.id) && (granted & perms.CREATE_PUBLIC_THREADS) !== 0n;
  const quoted = message.referenced_message, invoked = message.interaction_metadata, command = message.interaction?.name ?? invoked?.name;
  const thread = isStarter ? undefined : (message.thread ?? guild?.threads.get(message.id));
  const color = readable(world.colorOf(author.id, guild));
  // Its tools exist while the pointer or the focus is in it: those of all rows would cost more than the messages.
  const [isActive, setActive] = useState(false);

  const more = (anchor: HTMLElement): void => openLayer({
    key: `more:${message.id}`, anchor, label: "More actions", content: () => (
      <div class="menu" role="menu">
        {said && isStarter && <button type="button" role="menuitem" onClick={() => { closeLayer(); jumpTo(said.id, said.channel_id); }}><Icon name="thread" />Go to the message</button>}
        {mayThread && <button type="button" role="menuitem" onClick={() => { closeLayer(); askThread(message, anchor); }}><Icon name="thread" />Start a thread</button>}
        {mayPin && <button type="button" role="menuitem" onClick={() => { closeLayer(); world.togglePin(message).catch(world.complain); }}><Icon name="pin" />{message.pinned ? "Unpin message" : "Pin message"}</button>}
        <button type="button" role="menuitem" onClick={() => { closeLayer(); void navigator.clipboard?.writeText((said ?? message).content).then(() => world.say("The text is copied.")); }}><Icon name="grip" />Copy text</button>
        {said && !isOnlyHere && !isStarter && <MessageCommands message={said} />}
        {isOnlyHere && <button type="button" role="menuitem" onClick={() => { closeLayer(); world.dismiss(message); }}><Icon name="close" />Dismiss message</button>}
        {mayDelete && <button type="button" role="menuitem" class="danger" onClick={() => { closeLayer(); askDelete(message, anchor); }}><Icon name="bin" />Delete message…</button>}
      </div>
    ),
  });

  return (
    <li class={`message ${isFirst ? "first" : ""} ${isMention && !isMine ? "for-me" : ""} ${message.state ?? ""} ${isEditing ? "is-editing" : ""} ${isActive ? "active" : ""} ${isOnlyHere ? "only-here" : ""}`} data-id={message.id} tabIndex={-1}
      onPointerEnter={() => setActive(true)} onFocusIn={() => setActive(true)} onKeyDown={(event) => rowKeys(event, message, { isMine, mayDelete })}
      onPointerLeave={(event) => setActive(keepsTools(event.currentTarget, document.activeElement))}
      onFocusOut={(event) => setActive(event.currentTarget.matches(":hover") || keepsTools(event.currentTarget, event.relatedTarget as Element | null))}>
      {quoted !== undefined && message.type === 19 && (
        <button type="button" class="quoted" onClick={() => quoted && jumpTo(quoted.id, quoted.channel_id)} disabled={!quoted}>
          <Icon name="reply" />{quoted ? <><b style={{ color: readable(world.colorOf(quoted.author.id, guild)) }}>{world.nameOf(quoted.author, guild)}</b> <span>{preview(quoted, names)}</span></> : <span>The message was deleted.</span>}
        </button>
      )}
      {invoked && command && !quoted && (
        <p class="quoted used"><Icon name="command" /><b style={{ color: readable(world.colorOf(invoked.user.id, guild)) }}>{world.nameOf(invoked.user, guild)}</b> <span>used {invoked.type === 2 && message.type !== 23 ? `/${command}` : command}</span></p>
      )}
      {isFirst && !system
        ? <button type="button" class="face" tabIndex={-1} aria-hidden="true" onClick={(event) => openProfile(author, guild, event.currentTarget)}><Avatar user={author} name={name} /></button>
        : <time class="side-time" dateTime={message.timestamp} title={exactTime(message.timestamp)} aria-hidden="true">{time(message.timestamp)}</time>}
      <div class="body">
        {isFirst && !system && (
          <p class="head"><button type="button" class="author" style={{ color }} onClick={(event) => openProfile(author, guild, event.currentTarget)}>{name}</button>
            {author.bot && <span class="tag">bot</span>}<time dateTime={(said ?? message).timestamp} title={exactTime((said ?? message).timestamp)}>{time((said ?? message).timestamp)}</time>{message.pinned && <span class="quiet pinned"><Icon name="pin" /> pinned</span>}</p>
        )}
        {isEditing ? <EditBox message={message} /> : system ? <p class="system">{system}</p> : said && <Content message={said} names={names} />}
        {isOnlyHere && <p class="quiet small only-you">Only you can see this · <button type="button" class="link" onClick={() => world.dismiss(message)}>Dismiss</button></p>}
        {said && <Reactions message={said} />}
        {thread && <button type="button" class="thread-chip" onClick={() => world.openChannel(thread.id)}><Icon name="thread" /><b>{thread.name}</b><span class="quiet">{thread.message_count ? `${thread.message_count} ${thread.message_count === 1 ? "message" : "messages"}` : "Thread"}</span></button>}
        {message.state === "failed" && <p class="fault small">Not sent: {message.error} <button type="button" class="link" onClick={() => { world.discard(message); void world.sendMessage(message.channel_id, message.content, message.referenced_message ?? null, message.files ?? []); }}>Send again</button> <button type="button" class="link" onClick={() => world.discard(message)}>Discard</button></p>}
      </div>
      {isActive && !message.state && !isEditing && (
        <div class="tools" role="toolbar" aria-label={`Actions on the message of ${name}`}>
          {said && !isOnlyHere && <IconButton icon="smile" label="React" onClick={(event) => pickReaction(said, event.currentTarget as HTMLElement)} />}
          {!isStarter && !isOnlyHere && <IconButton icon="reply" label="Reply" onClick={() => startReply(message)} />}
          {isMine && !system && <IconButton icon="edit" label="Edit" onClick={() => (editing.value = message.id)} />}
          <IconButton icon="more" label="More" onClick={(event) => more(event.currentTarget as HTMLElement)} />
        </div>
      )}
    </li>
  );
}

function Content({ message, names }: { message: Message; names: Names }): VNode {
  const edited = message.edited_timestamp && <span class="edited" title={exactTime(message.edited_timestamp)}>(edited)</span>;
  if (isLoading(message)) {
    const isOver = Date.now() - new Date(message.timestamp).getTime() > ANSWER_MS, name = message.author.global_name ?? message.author.username;
    return isOver ? <p class="quiet">{name} promised an answer, which did not come.</p> : <p class="quiet thinking"><span class="dots" aria-hidden="true"><i /><i /><i /></span>{name} is thinking…</p>;
  }
  return (
    <>
      {(message.content || edited) && <div class={`content ${isJustEmoji(message.content) ? "just-emoji" : ""}`}><Markdown text={message.content} names={names} />{edited}</div>}
      <Files files={ownFiles(message)} />
      {message.files?.map((file, at) => <p key={at} class="quiet small">{message.state === "failed" ? "" : "Sending "}{file.name}, {bytes(file.size)}</p>)}
      <Embeds message={message} names={names} />
      <Components message={message} names={names} />
      <Stickers message={message} />
      {isBlank(message) && !message.files?.length && <p class="quiet">There is nothing in this message that this page can show.</p>}
    </>
  );
}

function Reactions({ message }: { message: Message }): VNode | null {
  if (!message.reactions?.length) return null;
  return (
    <div class="reactions">
      {message.reactions.map((reaction) => (
        <button type="button" key={reaction.emoji.id ?? reaction.emoji.name} class={reaction.me ? "mine" : ""} aria-pressed={reaction.me} aria-label={`${reaction.emoji.name}, ${reaction.count}`}
          onClick={() => void world.toggleReaction(message, reaction.emoji)}><span>{reaction.emoji.id ? <CustomEmoji id={reaction.emoji.id} name={reaction.emoji.name} /> : reaction.emoji.name}</span><span class="num">{reaction.count}</span></button>
      ))}
    </div>
  );
}

/** Whether the focus is in a row, or in a layer that its tools opened: closed, it gives the focus back to them. */
function keepsTools(row: HTMLElement, focus: Element | null): boolean {
  const opener = layer.peek()?.anchor;
  return row.contains(focus) || (opener !== undefined && row.contains(opener));
}

/** Commands of applications on a message, as entries of a menu. */
function MessageCommands({ message }: { message: Message }): VNode {
  const [found, setFound] = useState<interact.Offered[]>([]);
  useEffect(() => { interact.commandsOn(message.channel_id, interact.OF_MESSAGE).then(setFound, () => {}); }, [message.id]);
  return <>{found.map(({ command, application }) => <button type="button" key={command.id} role="menuitem" onClick={() => { closeLayer(); interact.invokeOn(message.channel_id, command, application, message.id).catch(world.complain); }}><Icon name="command" /><span class="name">{command.name}</span><span class="quiet small">{interact.nameOf(application)}</span></button>)}</>;
}

function startReply(message: Message): void {
  replying.value = message;
  focusComposer();
}

function askThread(message: Message, anchor: HTMLElement): void {
  const suggested = message.content.replace(/<[^>]+>|[*_~`|]/g, "").trim().split(/\s+/).slice(0, 6).join(" ").slice(0, 60) || "Thread";
  let name = suggested;
  openLayer({
    key: `thread:${message.id}`, anchor, label: "Start a thread", content: () => (
      <form class="thread-form" onSubmit={(event) => { event.preventDefault(); closeLayer(); world.startThread(message, name.trim() || suggested).catch(world.complain); }}>
        <label>Name of the thread<input data-first maxLength={100} defaultValue={suggested} onInput={(event) => (name = event.currentTarget.value)} /></label>
        <button type="submit" class="primary">Start thread</button>
      </form>
    ),
  });
}

function rowKeys(event: KeyboardEvent, message: Message, { isMine, mayDelete }: { isMine: boolean; mayDelete: boolean }): void {
  if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
  const row = event.currentTarget as HTMLElement;
  const step = (by: "previousElementSibling" | "nextElementSibling"): void => {
    const next = beside(row, by);
    event.preventDefault();
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); } else if (by === "nextElementSibling") focusComposer();
  };
  const isStarter = message.type === STARTER, said = shownOf(message);
  switch (event.key) {
    case "ArrowUp": return step("previousElementSibling");
    case "ArrowDown": return step("nextElementSibling");
    case "r": if (!isStarter && !isEphemeral(message)) { event.preventDefault(); startReply(message); } return;
    case "e": if (isMine) { event.preventDefault(); editing.value = message.id; } return;
    case "+": if (said && !isEphemeral(message)) { event.preventDefault(); pickReaction(said, row); } return;
    case "Delete": if (isEphemeral(message)) { event.preventDefault(); world.dismiss(message); } else if (mayDelete) { event.preventDefault(); askDelete(message, row); } return;
    case "Escape": focusComposer();
  }
}

/** Scrolls to a message that is there, and puts the focus on it; false if it is not there. */
function land(id: string): boolean {
  const row = rowOf(id);
  if (!row) return false;
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
  row.classList.add("flash");
  setTimeout(() => row.classList.remove("flash"), 1500);
  return true;
}

/** The message that gets the focus instead of the message box, once its channel is there. */
let landing: string | null = null;

/** Jumps to a message, in any channel and of any time. */
export function jumpTo(id: string, channelId: string): void {
  view.value = "chat";
  if (world.channelId.value === channelId && land(id)) return;
  landing = id;
  const look = (deadline: number): void => {
    // Another jump has begun, or another channel was opened.
    if (landing !== id) return;
    if (world.channelId.value !== channelId || land(id)) { landing = null; return; }
    if (performance.now() < deadline) { requestAnimationFrame(() => look(deadline)); return; }
    landing = null;
    world.say("That message is not there any more.", "plain", "place");
  };
  world.openAround(channelId, id).then(() => look(performance.now() + LANDING_MS), (error: Error) => { landing = null; world.complain(error); });
}

/** What the list shows of a message, and what that depends on. An element that is the same object is not compared again. */
interface Shown { message: Message; before: Message | undefined; props: string; nodes: VNode[] }

/** Whether a message begins a new block: another author, or some minutes later. */
const begins = (message: Message, before: Message | undefined): boolean =>
  !before || before.type === STARTER || before.author.id !== message.author.id || message.type !== 0 || systemText(before, "") !== null || new Date(message.timestamp).getTime() - new Date(before.timestamp).getTime() > 7 * 60_000;

export function Messages({ id }: { id: string }): VNode {
  watch(`messages:${id}`, "members", "guilds");
  const history = world.historyOf(id);
  const box = useRef<HTMLDivElement>(null);
  const anchor = useRef<{ id: string; top: number } | null>(null);
  const lastTop = useRef(0);
  const entry = useRef<HTMLElement | null>(null);
  const channel = world.channelOf(id);
  const { items } = history;
  // Messages that arrive while the channel is on the screen are not marked as new.
  const newSince = useMemo(() => (channel && world.isUnread(channel) ? world.lastRead(id) : undefined), [id]);

  const stick = (): void => { const there = box.current; if (there) there.scrollTop = there.scrollHeight; };

  // The topmost message keeps its place when older messages come in above it, and when the oldest go.
  const remember = (): void => {
    const there = box.current;
    if (!there) return;
    const top = there.getBoundingClientRect().top;
    const first = [...there.querySelectorAll<HTMLElement>(".message")].find((row) => row.getBoundingClientRect().bottom > top);
    anchor.current = first ? { id: first.dataset.id ?? "", top: first.getBoundingClientRect().top } : null;
  };
  useLayoutEffect(() => {
    const there = box.current;
    if (!there) return;
    // The newest message is where the keyboard enters the list.
    const newest = there.querySelector<HTMLElement>(".list > :last-child");
    if (newest !== entry.current) { entry.current?.setAttribute("tabindex", "-1"); newest?.setAttribute("tabindex", "0"); entry.current = newest; }
    if (world.atBottom.value && !history.hasNewer) { stick(); return; }
    const kept = anchor.current;
    const row = kept && there.querySelector<HTMLElement>(`[data-id="${CSS.escape(kept.id)}"]`);
    if (row && kept) there.scrollTop += row.getBoundingClientRect().top - kept.top;
    remember();
  }, [items, id]);
  // What came while another channel was on the screen is read now. Before the first frame, the line above it would be missing.
  useEffect(() => { if (history.isLoaded && !history.hasNewer && world.atBottom.value && !document.hidden) world.markRead(id); }, [id]);
  useLayoutEffect(() => {
    const there = box.current;
    if (!there) return;
    const observer = new ResizeObserver(() => { if (world.atBottom.value) stick(); });
    observer.observe(there);
    if (there.firstElementChild) observer.observe(there.firstElementChild);
    return () => observer.disconnect();
  }, [id]);

  const onScroll = (): void => {
    const there = box.current;
    if (!there) return;
    const fromBottom = there.scrollHeight - there.scrollTop - there.clientHeight;
    const isUpwards = there.scrollTop < lastTop.current;
    lastTop.current = there.scrollTop;
    // Incoming messages move the end away: only scrolling up leaves it.
    if (world.atBottom.value && !isUpwards && !history.hasNewer && fromBottom >= NEAR_BOTTOM) return stick();
    const isAtBottom = fromBottom < NEAR_BOTTOM && !history.hasNewer;
    if (isAtBottom !== world.atBottom.value) { world.atBottom.value = isAtBottom; if (isAtBottom) world.markRead(id); }
    if (!isAtBottom) remember();
    if (isUpwards) world.unsay("place");
    if (there.scrollTop < NEAR_TOP && history.hasOlder && history.isLoaded) void world.load(id, "older");
    if (fromBottom < NEAR_TOP && history.hasNewer && !history.isLoading) void world.load(id, "newer");
  };
  const toNewest = async (): Promise<void> => {
    if (history.hasNewer) { history.items = []; await world.load(id); }
    world.atBottom.value = true;
    stick();
    world.markRead(id);
  };

  const shown = useRef(new Map<string, Shown>());
  const rows: VNode[] = [], kept = new Map<string, Shown>();
  let before: Message | undefined, isNewShown = false, fresh = 0;
  const version = channel ? Number(world.permissionsOf(channel) & 0xffffffffn) : 0, today = new Date().toDateString();
  for (const message of items) {
    const isFresh = !!newSince && !message.state && message.author.id !== world.me.value?.id && isNewer(message.id, newSince);
    if (isFresh) fresh++;
    const isFirstNew: boolean = isFresh && !isNewShown && before !== undefined, isEditing = editing.value === message.id;
    isNewShown ||= isFirstNew;
    const props = `${version} ${today} ${isFirstNew} ${isEditing}`;
    let row = shown.current.get(message.id);
    if (row?.message !== message || row.before !== before || row.props !== props) {
      const nodes: VNode[] = [];
      if (!before || day(before.timestamp) !== day(message.timestamp)) nodes.push(<li key={`d${message.id}`} class="divider"><span>{day(message.timestamp)}</span></li>);
      if (isFirstNew) nodes.push(<li key="new" class="divider new"><span>New</span></li>);
      const key = message.nonce !== undefined && message.author.id === world.me.value?.id ? `n${message.nonce}` : message.id;
      nodes.push(<Row key={key} message={message} isFirst={begins(message, before)} version={version} isEditing={isEditing} />);
      row = { message, before, props, nodes };
    }
    kept.set(message.id, row);
    rows.push(...row.nodes);
    before = message;
  }
  shown.current = kept;
  const intro = channel && (isDirect(channel) ? `This is the beginning of your conversation with ${world.channelName(channel)}.` : `This is the beginning of ${isThread(channel) ? "the thread " : "#"}${world.channelName(channel)}.`);
  return (
    <div class="messages-area">
      <div class="messages" ref={box} onScroll={onScroll} tabIndex={0} role="region" aria-label="Messages">
        <div class="inner">
          {history.isLoaded && !history.hasOlder && <p class="intro">{intro}{channel?.topic && <span class="quiet"> {channel.topic}</span>}</p>}
          {history.isLoading && history.isLoaded && history.hasOlder && <p class="quiet loading">Loading older messages…</p>}
          {!history.isLoaded && !history.error && <Skeletons />}
          {history.error && <p class="fault">{history.error} <button type="button" class="link" onClick={() => void world.load(id)}>Try again</button></p>}
          {history.isLoaded && items.length === 0 && !history.isLoading && <p class="empty">Nobody has written here. Be the first.</p>}
          <div role="log" aria-live="polite" aria-relevant="additions" aria-label={`Messages in ${channel ? world.channelName(channel) : "this channel"}`}><ol class="list">{rows}</ol></div>
        </div>
      </div>
      {(!world.atBottom.value || history.hasNewer) && history.isLoaded && (
        <button type="button" class="to-newest" onClick={() => void toNewest()}><Icon name="down" />{fresh > 0 && channel && world.isUnread(channel) ? "New messages: jump to newest" : "Jump to newest"}</button>
      )}
    </div>
  );
}

function Skeletons(): VNode {
  return <div aria-hidden="true" class="skeletons">{[62, 88, 45, 74, 30, 92, 55].map((width) => <div class="skeleton message-skeleton" key={width}><span class="blob" /><span class="bars"><span class="bar" style={{ width: "120px" }} /><span class="bar" style={{ width: `${width}%` }} /></span></div>)}</div>;
}

function Typing({ id }: { id: string }): VNode {
  watch("typing", "members", "interactions");
  const commands = interact.commandsWaiting(id);
  const guild = world.guildOf(world.channelOf(id));
  const who = world.typists(id).map(({ userId, name }) => { const known = guild?.members.get(userId)?.user ?? world.userOf(userId); return known ? world.nameOf(known, guild) : (name ?? "Somebody"); });
  const text = who.length === 0 ? "" : who.length === 1 ? `${who[0]} is typing…` : who.length === 2 ? `${who[0]} and ${who[1]} are typing…` : "Several people are typing…";
  if (commands.length > 0) return <p class="typing" role="status"><span class="dots" aria-hidden="true"><i /><i /><i /></span>{commands.join(", ")}: waiting for the answer…</p>;
  return <p class="typing" aria-live="off">{text && <><span class="dots" aria-hidden="true"><i /><i /><i /></span>{text}</>}</p>;
}


export function Composer({ id }: { id: string }): VNode {
  watch("guilds");
  const channel = world.channelOf(id)!;
  const guild = world.guildOf(channel);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [text, show] = useState(() => drafts.get(id) ?? sessionStorage.getItem(world.draftKey(id)) ?? "");
  const setText = (value: string): void => {
    drafts.set(id, value);
    if (value) sessionStorage.setItem(world.draftKey(id), value); else sessionStorage.removeItem(world.draftKey(id));
    show(value);
  };
  const [files, setFiles] = useState<File[]>([]);
  const [command, setCommand] = useState<interact.Begun | null>(null);
  const completion = useCompletion(area, guild, id, setText, (of) => setCommand({ of, rest: "" }));
  const reply = replying.value?.channel_id === id ? replying.value : null;
  const granted = world.permissionsOf(channel);
  const maySend = (granted & perms.SEND_MESSAGES) !== 0n;
  const isArchived = channel.thread_metadata?.locked;

  useLayoutEffect(() => { const there = area.current; if (there) { there.style.height = "0"; there.style.height = `${Math.min(there.scrollHeight, 220)}px`; } }, [text]);
  useLayoutEffect(() => { if (!landing && matchMedia("(min-width: 720px)").matches) area.current?.focus({ preventScroll: true }); }, [id]);

  const submit = (): void => {
    const written = text.trim();
    // The list of commands may not be there yet. A command is not sent as a text.
    if (!written.startsWith("/") || files.length > 0) return send();
    interact.commandOf(id, written.slice(1)).then((found) => {
      if (area.current?.value.trim() !== written) return;
      if (!found) return send();
      setText(""); completion.close();
      setCommand(found);
    }, send);
  };
  const send = (): void => {
    const content = encode(text.trim(), guild, completion.chosen);
    if (!content && files.length === 0) return;
    const length = [...content].length;
    if (length > CONTENT_MAX) return world.say(`A message has ${CONTENT_MAX.toLocaleString("en")} characters at most; this one has ${length.toLocaleString("en")}.`, "bad", "text");
    setText(""); setFiles([]); completion.close();
    replying.value = null;
    world.atBottom.value = true;
    void world.sendMessage(id, content, reply, files);
    area.current?.focus();
  };
  const insert = (emoji: Emoji): void => {
    const there = area.current;
    if (!there) return;
    const written = emoji.id ? `:${emoji.name}:` : emoji.name, [from, to] = [there.selectionStart, there.selectionEnd];
    const gap = emoji.id && from > 0 && !/\s/.test(text[from - 1]!) ? " " : "";
    const caret = from + gap.length + written.length + (emoji.id ? 1 : 0);
    setText(write(there, `${text.slice(0, from)}${gap}${written}${emoji.id ? " " : ""}${text.slice(to)}`, caret));
  };
  const add = (list: FileList | null | undefined): void => {
    if (!list?.length) return;
    const chosen = [...files, ...list], tooLarge = chosen.filter((file) => file.size > FILE_BYTES_MAX);
    const kept = chosen.filter((file) => file.size <= FILE_BYTES_MAX), left = kept.slice(FILES_MAX);
    setFiles(kept.slice(0, FILES_MAX));
    const names = (list: File[]): string => list.map((file) => file.name).join(", ");
    if (tooLarge.length > 0) world.say(`A file has ${bytes(FILE_BYTES_MAX)} at most. Left out: ${names(tooLarge)}.`, "bad");
    else if (left.length > 0) world.say(`A message has ${FILES_MAX} files at most. Left out: ${names(left)}.`, "bad");
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (completion.handleKey(event)) return;
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); submit(); }
    else if (event.key === "Escape" && reply) replying.value = null;
    else if (event.key === "Tab" && event.shiftKey) {
      const newest = document.querySelector<HTMLElement>(".messages .list > .message:last-child");
      if (newest) { event.preventDefault(); newest.focus(); newest.scrollIntoView({ block: "nearest" }); }
    }
    else if (event.key === "ArrowUp" && !text) {
      const own = world.historyOf(id).items.findLast((message) => message.author.id === world.me.value?.id && !message.state && systemText(message, "") === null);
      if (own && !event.shiftKey) { event.preventDefault(); editing.value = own.id; touch(`messages:${id}`); }
    }
  };
  if (!maySend || isArchived) return <div class="composer-area"><p class="quiet locked">{isArchived ? "This thread is locked." : "You can read here, and not write."}</p></div>;
  if (command) return <CommandForm key={command.of.key} channelId={id} command={command.of} rest={command.rest} onClose={() => { setCommand(null); requestAnimationFrame(focusComposer); }} />;
  const placeholder = `Message ${isDirect(channel) ? world.channelName(channel) : isThread(channel) ? `“${world.channelName(channel)}”` : `#${world.channelName(channel)}`}`;
  return (
    <form class="composer-area" onSubmit={(event) => { event.preventDefault(); submit(); }}
      onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); add(event.dataTransfer?.files); }}>
      {completion.list}
      {reply && <div class="replying"><span>Replying to <b>{world.nameOf(reply.author, guild)}</b></span><IconButton icon="close" label="Cancel the reply" onClick={() => (replying.value = null)} /></div>}
      {files.length > 0 && <ul class="chosen-files" aria-label="Files to send">{files.map((file, at) => <li key={at}><Icon name="attach" /><span class="name">{file.name}</span><span class="quiet">{bytes(file.size)}</span><IconButton icon="close" label={`Remove ${file.name}`} onClick={() => setFiles(files.filter((_, other) => other !== at))} /></li>)}</ul>}
      <div class="composer">
        {(granted & perms.ATTACH_FILES) !== 0n && <><IconButton icon="attach" label="Attach files" onClick={() => picker.current?.click()} />
          <input ref={picker} type="file" multiple hidden aria-hidden="true" tabIndex={-1} onChange={(event) => { add(event.currentTarget.files); event.currentTarget.value = ""; }} /></>}
        <textarea id="composer" ref={area} rows={1} placeholder={placeholder} aria-label={placeholder} value={text} maxLength={4000} {...completion.attributes}
          onInput={(event) => { const value = event.currentTarget.value; setText(value); world.unsay("text"); if (value.trim()) world.tellTyping(id); completion.suggest(value, event.currentTarget.selectionStart); }}
          onKeyDown={onKey} onPaste={(event) => { if (event.clipboardData?.files.length) { event.preventDefault(); add(event.clipboardData.files); } }} />
        {text.length > CONTENT_MAX - 200 && <span class={`left ${text.length > CONTENT_MAX ? "over" : ""}`}>{CONTENT_MAX - text.length}</span>}
        <IconButton icon="smile" label="Emoji" className="only-wide" onClick={(event) => pickEmoji("compose", "Insert", event.currentTarget as HTMLElement, channel, insert, area.current ?? undefined)} />
        <button type="submit" class="icon-button send" aria-label="Send" title="Send" disabled={!text.trim() && files.length === 0}><Icon name="send" /></button>
      </div>
      <Typing id={id} />
    </form>
  );
}

function Pins({ id }: { id: string }): VNode {
  const version = watch("pins");
  const [found, setFound] = useState<Message[] | null>(null);
  const [fault, setFault] = useState("");
  useEffect(() => {
    let isLatest = true;
    world.pins(id).then((pins) => { if (isLatest) { setFound(pins); setFault(""); } }, (error: Error) => { if (isLatest) setFault(error.message); });
    return () => { isLatest = false; };
  }, [id, version]);
  const channel = world.channelOf(id);
  const names = namesFor(channel);
  return (
    <div class="pins">
      <h3>Pinned messages</h3>
      {fault && <p class="fault">{fault}</p>}
      {found?.length === 0 && <p class="empty">Pinned messages are kept here. Moderators pin them from a message’s “More” menu.</p>}
      {found?.map((message) => <button type="button" key={message.id} onClick={() => { closeLayer(); jumpTo(message.id, id); }}><b>{world.nameOf(message.author, world.guildOf(channel))}</b> <time class="quiet">{day(message.timestamp)}</time><span>{preview(message, names)}</span></button>)}
    </div>
  );
}

export function ChannelHead({ channel, onSearch }: { channel: Channel; onSearch: () => void }): VNode {
  watch("guilds");
  const parent = isThread(channel) ? world.channelOf(channel.parent_id ?? "") : undefined;
  return (
    <header class="channel-head">
      <button type="button" class="icon-button only-narrow" aria-label="Channels" onClick={() => (view.value = "channels")}><Icon name="back" /></button>
      <span class="kind"><Icon name={isDirect(channel) ? "mail" : isThread(channel) ? "thread" : "hash"} /></span>
      <h2>{parent && <><button type="button" class="link parent" onClick={() => world.openChannel(parent.id)}>{parent.name}</button> <span class="quiet">/</span> </>}{world.channelName(channel)}</h2>
      {channel.topic && <p class="topic quiet" title={channel.topic}>{channel.topic}</p>}
      <span class="spacer" />
      {channel.guild_id && <IconButton icon="search" label="Search messages" onClick={onSearch} />}
      <IconButton icon="pin" label="Pinned messages" onClick={(event) => openLayer({ key: `pins:${channel.id}`, anchor: event.currentTarget as HTMLElement, label: "Pinned messages", content: () => <Pins id={channel.id} /> })} />
    </header>
  );
}
