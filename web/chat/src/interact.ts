// Interactions: commands that applications offer, use of their components, modals, and what waits for an answer.
//
// Limits   WAITING_MAX interactions wait at once, each for ANSWER_MS after the node took it; INDEXES_MAX channels keep their commands, for INDEX_MS.
// Not here what is on the screen: `command.tsx`, `modal.tsx`, `rich.tsx`.

import { signal } from "@preact/signals";
import type { Client } from "@guildhall/sdk";
import { call } from "./rest.ts";
import { touch } from "./topics.ts";
import type { Id, Message, User } from "./types.ts";
import * as world from "./world.ts";

const INVOKE = 2, USE = 3, COMPLETE = 4, SUBMIT = 5;
/** The node gives applications three seconds, and reports afterwards; without its report the page gives up. */
const ANSWER_MS = 6_000;
const WAITING_MAX = 20;
const INDEX_MS = 60_000, INDEXES_MAX = 20;

export const CHAT_INPUT = 1, OF_USER = 2, OF_MESSAGE = 3;
export const SUBCOMMAND = 1, GROUP = 2, STRING = 3, INTEGER = 4, BOOLEAN = 5, USER = 6, CHANNEL = 7, ROLE = 8, MENTIONABLE = 9, NUMBER = 10, FILE = 11;

export interface Choice { name: string; value: string | number }
export interface Option {
  type: number; name: string; description: string; required?: boolean; choices?: Choice[]; autocomplete?: boolean; options?: Option[]; channel_types?: number[];
  min_value?: number; max_value?: number; min_length?: number; max_length?: number;
}
export interface Command { id: Id; application_id: Id; version: Id; type: number; name: string; description: string; guild_id?: Id; options?: Option[] }
export interface Application { id: Id; name: string; bot?: User }
/** A command of the chat, or one of its subcommands. */
export interface Invocable { key: string; command: Command; application: Application | undefined; name: string; description: string; path: { type: number; name: string }[]; options: Option[] }
export type Values = ReadonlyMap<string, string | number | boolean>;

type Part = { readonly [key: string]: unknown };
/** A form that an application shows. */
export interface ModalShown { id: Id; channel_id: Id; application: Application; custom_id: string; title: string; components: Part[] }
export const modal = signal<ModalShown | null>(null);

// --- What waits

interface Waiting {
  nonce: string; kind: number; channelId: Id; application: string;
  /** Of a command. */
  name?: string;
  /** Of a component. */
  used?: { messageId: Id; customId: string };
  onChoices?: (choices: Choice[]) => void;
  timer?: ReturnType<typeof setTimeout>;
}
const waiting = new Map<string, Waiting>();
/** The last FAULTS_MAX messages whose component failed, with the reason. */
const faults = new Map<Id, string>();
const FAULTS_MAX = 50;
function fail(messageId: Id, why: string): void {
  faults.delete(messageId);
  faults.set(messageId, why);
  if (faults.size > FAULTS_MAX) for (const oldest of faults.keys()) { faults.delete(oldest); break; }
}

/** The component of a message that waits for its answer. */
export const usedOf = (messageId: Id): string | undefined => [...waiting.values()].find(({ used }) => used?.messageId === messageId)?.used?.customId;
export const faultOf = (messageId: Id): string | undefined => faults.get(messageId);
/** Commands of a channel without an answer, by name. */
export const commandsWaiting = (channelId: Id): string[] => [...waiting.values()].flatMap((each) => (each.name && each.channelId === channelId ? [each.name] : []));

/** An interaction got its answer, or none. */
function settle(nonce: string, fault = ""): void {
  const settled = waiting.get(nonce);
  if (!settled) return;
  waiting.delete(nonce);
  clearTimeout(settled.timer);
  if (settled.used && fault) fail(settled.used.messageId, fault);
  else if (fault && settled.kind !== COMPLETE) world.say(fault, "bad");
  settled.onChoices?.([]);
  touch("interactions");
}

const unanswered = ({ application }: Waiting): string => `${application} did not answer within 3 seconds. Try again, or ask who runs it.`;

let counter = 0;
/** Sends one. Rejects if the node refuses it. */
async function send(of: Omit<Waiting, "nonce">, applicationId: Id, body: Part): Promise<void> {
  const nonce = `${Date.now()}${(counter++ % 1000).toString().padStart(3, "0")}`;
  const sent: Waiting = { ...of, nonce };
  for (const oldest of waiting.keys()) if (waiting.size >= WAITING_MAX) settle(oldest, unanswered(waiting.get(oldest)!));
  waiting.set(nonce, sent);
  if (of.used) faults.delete(of.used.messageId);
  touch("interactions");
  try {
    const guildId = world.channelOf(of.channelId)?.guild_id;
    await call("POST", "/interactions", { type: of.kind, application_id: applicationId, ...(guildId ? { guild_id: guildId } : {}), channel_id: of.channelId, nonce, ...body });
    if (waiting.has(nonce)) sent.timer = setTimeout(() => settle(nonce, unanswered(sent)), ANSWER_MS);
  } catch (error) {
    waiting.delete(nonce);
    sent.onChoices?.([]);
    touch("interactions");
    throw error;
  }
}

/** Follows a client: once per log-in. */
export function follow(client: Client): void {
  for (const { timer } of waiting.values()) clearTimeout(timer);
  waiting.clear(); faults.clear(); indexes.clear();
  modal.value = null;
  client.on("dispatch", (body, { name }) => {
    const { nonce, ...rest } = body as { nonce?: string | number; choices?: Choice[] };
    const own = waiting.get(String(nonce));
    // All sessions of the account get these events.
    if (!own) return;
    if (name === "INTERACTION_SUCCESS") settle(own.nonce);
    else if (name === "INTERACTION_FAILURE") settle(own.nonce, unanswered(own));
    else if (name === "INTERACTION_MODAL_CREATE") modal.value = rest as unknown as ModalShown;
    else if (name === "APPLICATION_COMMAND_AUTOCOMPLETE_RESPONSE") { own.onChoices?.(rest.choices ?? []); delete own.onChoices; settle(own.nonce); }
  });
}

// --- Commands

interface Index { applications: Application[]; application_commands: Command[] }
const indexes = new Map<Id, { at: number; found: Promise<Index> }>();

/** What the account may use in a channel. */
function indexOf(channelId: Id): Promise<Index> {
  const known = indexes.get(channelId);
  if (known && performance.now() - known.at < INDEX_MS) return known.found;
  const found = call<Index>("GET", `/channels/${channelId}/application-command-index`);
  indexes.delete(channelId);
  indexes.set(channelId, { at: performance.now(), found });
  if (indexes.size > INDEXES_MAX) for (const oldest of indexes.keys()) { indexes.delete(oldest); break; }
  found.catch(() => indexes.delete(channelId));
  return found;
}

/** A command without subcommands is one, any other has one for each. */
function invocables(command: Command, application: Application | undefined): Invocable[] {
  const own = command.options ?? [], isNested = own.some(({ type }) => type === SUBCOMMAND || type === GROUP);
  const one = (path: Option[], options: Option[], description: string): Invocable =>
    ({ key: [command.id, ...path.map(({ name }) => name)].join("/"), command, application, description, options, path: path.map(({ type, name }) => ({ type, name })), name: [command.name, ...path.map(({ name }) => name)].join(" ") });
  if (!isNested) return [one([], own, command.description)];
  return own.flatMap((option) => option.type === GROUP ? (option.options ?? []).map((inner) => one([option, inner], inner.options ?? [], inner.description)) : [one([option], option.options ?? [], option.description)]);
}

/** Commands of the chat whose name contains a text; first those that begin with it. */
export async function findCommands(channelId: Id, query: string): Promise<Invocable[]> {
  const { applications, application_commands: all } = await indexOf(channelId);
  const wanted = query.toLowerCase();
  const found = all.filter(({ type }) => type === CHAT_INPUT).flatMap((command) => invocables(command, applications.find(({ id }) => id === command.application_id)));
  const rank = ({ name }: Invocable): number => Number(!name.startsWith(wanted));
  return found.filter(({ name }) => name.includes(wanted)).sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

/** A command that a text begins with, and the rest of the text. */
export interface Begun { of: Invocable; rest: string }
export async function commandOf(channelId: Id, text: string): Promise<Begun | null> {
  const found = (await findCommands(channelId, "")).filter(({ name }) => text === name || text.startsWith(`${name} `));
  const of = found.sort((a, b) => b.name.length - a.name.length)[0];
  return of ? { of, rest: text.slice(of.name.length).trim() } : null;
}

export interface Offered { command: Command; application: Application | undefined }
/** Commands on a message or on an account. */
export async function commandsOn(channelId: Id, type: typeof OF_USER | typeof OF_MESSAGE): Promise<Offered[]> {
  const { applications, application_commands: all } = await indexOf(channelId);
  return all.filter((command) => command.type === type).map((command) => ({ command, application: applications.find(({ id }) => id === command.application_id) }));
}

/** As members know it. */
export const nameOf = (application: Application | undefined): string => application?.bot?.global_name ?? application?.name ?? "The application";

/** Options as the node reads them. The one that is typed may have any text. */
function optionsOf({ path, options }: Invocable, values: Values, focused?: string): unknown[] {
  let nested: unknown[] = options.flatMap(({ type, name }) => {
    const value = values.get(name), isFocused = name === focused;
    return value === undefined && !isFocused ? [] : [{ type, name, value: value ?? "", ...(isFocused ? { focused: true } : {}) }];
  });
  for (const { type, name } of [...path].reverse()) nested = [{ type, name, options: nested }];
  return nested;
}

const dataOf = ({ id, version, name, type, guild_id }: Command): Part => ({ id, version, name, type, ...(guild_id ? { guild_id } : {}), attachments: [] });

/** Invokes a command of the chat. */
export async function invoke(channelId: Id, of: Invocable, values: Values): Promise<void> {
  // The answer is one of the newest messages.
  if (world.historyOf(channelId).hasNewer) await world.load(channelId);
  const { command, application, name } = of;
  await send({ kind: INVOKE, channelId, application: nameOf(application), name: `/${name}` }, command.application_id, { data: { ...dataOf(command), options: optionsOf(of, values) } });
}

/** Invokes a command on a message or on an account. */
export async function invokeOn(channelId: Id, command: Command, application: Application | undefined, targetId: Id): Promise<void> {
  await send({ kind: INVOKE, channelId, application: nameOf(application), name: command.name }, command.application_id, { data: { ...dataOf(command), target_id: targetId } });
}

/** Values that the application proposes for the option that is typed; none if it does not answer. */
export function complete(channelId: Id, of: Invocable, values: Values, focused: string): Promise<Choice[]> {
  return new Promise((onChoices) => {
    const { command, application } = of;
    send({ kind: COMPLETE, channelId, application: nameOf(application), onChoices }, command.application_id, { data: { ...dataOf(command), options: optionsOf(of, values, focused) } }).catch(() => onChoices([]));
  });
}

// --- Components and modals

/** Presses a button, or chooses in a menu. */
export function use(message: Message, component: Part, values?: string[]): void {
  const customId = String(component["custom_id"]), channelId = message.channel_id;
  send({ kind: USE, channelId, application: message.author.global_name ?? message.author.username, used: { messageId: message.id, customId } }, message.author.id, {
    message_id: message.id, message_flags: message.flags ?? 0, data: { component_type: component["type"], custom_id: customId, ...(values ? { values, type: component["type"] } : {}) },
  }).catch((error: Error) => { fail(message.id, error.message); touch("interactions"); });
}

/** Sends a filled modal. */
export async function submit({ id, channel_id: channelId, application, custom_id }: ModalShown, components: unknown[]): Promise<void> {
  await send({ kind: SUBMIT, channelId, application: nameOf(application) }, application.id, { data: { id, custom_id, components } });
}
