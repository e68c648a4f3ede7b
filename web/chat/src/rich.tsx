// Rich parts of a message: embeds, components and stickers, as elements.
//
// Bots choose their form: a part of another form is left out.
//
// Limits   PARTS_MAX components of a message, DEPTH_MAX levels; links lead to http and https only; pictures come from this node only, and those
//          of other hosts are links.
// Not here interactions: `interact.ts`.

import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import { ChooseEntries, ChooseFound, finder, type Item, type Kind } from "./choose.tsx";
import * as interact from "./interact.ts";
import { CustomEmoji, Markdown, type Names, plainText, Spoiler } from "./markdown.tsx";
import { watch } from "./topics.ts";
import { type Attachment, type Embed, isLoading, type Message } from "./types.ts";
import { closeLayer, day, exactTime, Icon, openLayer, time } from "./ui.tsx";
import { bytes } from "./meter.ts";

const PARTS_MAX = 200, DEPTH_MAX = 6;

type Part = { readonly [key: string]: unknown };
const isPart = (value: unknown): value is Part => typeof value === "object" && value !== null && !Array.isArray(value);
const part = (value: unknown): Part => (isPart(value) ? value : {});
const parts = (value: unknown): Part[] => (Array.isArray(value) ? value.filter(isPart) : []);
const text = (value: unknown): string => (typeof value === "string" ? value : typeof value === "number" ? String(value) : "");
const hex = (value: unknown): string | undefined => (Number.isInteger(value) && (value as number) > 0 && (value as number) <= 0xffffff ? `#${(value as number).toString(16).padStart(6, "0")}` : undefined);

/** Where pictures may come from: what the page's Content-Security-Policy permits. */
export const pictureOrigins = new Set<string>([location.origin]);

/** An address of the web, or null: of `javascript:` and others nothing becomes a link. */
export function webUrl(value: unknown): URL | null {
  try {
    const url = new URL(text(value));
    return url.protocol === "http:" || url.protocol === "https:" ? url : null;
  } catch { return null; }
}

function Link({ to, children, className }: { to: unknown; children: ComponentChildren; className?: string }): VNode {
  const url = webUrl(to);
  return url ? <a class={className} href={url.href} target="_blank" rel="noopener noreferrer nofollow" title={url.href}>{children}</a> : <span class={className}>{children}</span>;
}

interface Shape { source: unknown; alt: string; className: string; width?: number | null | undefined; height?: number | null | undefined }

/** A picture of this node; of another host the link to it, so that nobody learns who looks. */
export function Picture({ source, alt, className, width, height }: Shape): VNode | null {
  const [isBroken, setBroken] = useState(false);
  const url = webUrl(source);
  if (!url) return null;
  if (isBroken || !pictureOrigins.has(url.origin)) return <Link to={url.href} className="elsewhere"><Icon name="picture" />{isBroken ? alt : `Picture at ${url.host}`}</Link>;
  const scale = width && height ? Math.min(1, 400 / width, 300 / height) : undefined;
  return (
    <a class={`picture ${className}`} href={url.href} target="_blank" rel="noopener noreferrer">
      <img src={url.href} alt={alt} loading="lazy" width={scale && Math.round(width! * scale)} height={scale && Math.round(height! * scale)} onError={() => setBroken(true)} />
    </a>
  );
}

/** A small picture beside a name: without it nothing is missing. */
function Face({ source }: { source: unknown }): VNode | null {
  const [isBroken, setBroken] = useState(false);
  const url = webUrl(source);
  return url && !isBroken && pictureOrigins.has(url.origin) ? <img class="embed-face" src={url.href} alt="" loading="lazy" onError={() => setBroken(true)} /> : null;
}

const known = (message: Message, url: unknown): Attachment | undefined => message.attachments.find((file) => file.url === url);

export function Files({ files }: { files: Attachment[] }): VNode | null {
  return files.length > 0 ? <div class="files">{files.map((file) => <FileRow key={file.id} file={file} />)}</div> : null;
}

function FileRow({ file }: { file: Attachment }): VNode | null {
  const url = webUrl(file.url);
  if (!url) return null;
  if (file.content_type?.startsWith("image/") && file.width && file.height && pictureOrigins.has(url.origin)) return <Picture source={url.href} alt={file.description ?? file.filename} className="" width={file.width} height={file.height} />;
  return <a class="file" href={url.href} target="_blank" rel="noopener noreferrer" download><Icon name="attach" /><span class="name">{file.filename}</span><span class="quiet">{bytes(file.size)}</span></a>;
}

// --- Embeds

const SUPPRESS_EMBEDS = 1 << 2;
const hasNoEmbeds = (message: Message): boolean => ((message.flags ?? 0) & SUPPRESS_EMBEDS) !== 0;

export function Embeds({ message, names }: { message: Message; names: Names }): VNode | null {
  const embeds = hasNoEmbeds(message) ? [] : parts(message.embeds);
  return embeds.length > 0 ? <>{embeds.map((embed, at) => <EmbedBox key={at} embed={embed} message={message} names={names} />)}</> : null;
}

function EmbedBox({ embed, message, names }: { embed: Part & Embed; message: Message; names: Names }): VNode {
  const author = part(embed.author), footer = part(embed.footer), image = part(embed.image), thumbnail = part(embed.thumbnail);
  const fields = parts(embed.fields).filter((field) => text(field["name"]) || text(field["value"]));
  const at = text(embed.timestamp), isDated = at !== "" && !Number.isNaN(Date.parse(at));
  const size = known(message, image["url"]);
  return (
    <article class="embed" style={{ borderLeftColor: hex(embed.color) }}>
      <div class="embed-text">
        {text(author["name"]) && <p class="embed-author"><Face source={author["icon_url"]} /><Link to={author["url"]}>{text(author["name"])}</Link></p>}
        {text(embed.title) && <p class="embed-title"><Link to={embed.url}>{text(embed.title)}</Link></p>}
        {text(embed.description) && <Markdown text={text(embed.description)} names={names} />}
        {fields.length > 0 && (
          <dl class="embed-fields">{fields.map((field, index) => (
            <div key={index} class={field["inline"] === true ? "inline" : ""}><dt>{plainText(text(field["name"]), names)}</dt><dd><Markdown text={text(field["value"])} names={names} /></dd></div>
          ))}</dl>
        )}
      </div>
      {thumbnail["url"] !== undefined && <Picture source={thumbnail["url"]} alt="Thumbnail" className="small-picture" />}
      {image["url"] !== undefined && <Picture source={image["url"]} alt={size?.description ?? (text(embed.title) || "Picture")} className="wide" width={size?.width} height={size?.height} />}
      {(text(footer["text"]) || isDated) && (
        <p class="embed-footer"><Face source={footer["icon_url"]} /><span>{text(footer["text"])}{text(footer["text"]) && isDated && " · "}
          {isDated && <time dateTime={at} title={exactTime(at)}>{day(at)}, {time(at)}</time>}</span></p>
      )}
    </article>
  );
}

// --- Components

const LINK = 5;
const PICK: { readonly [type: number]: string } = { 3: "Choose", 5: "Choose a person", 6: "Choose a role", 7: "Choose a person or role", 8: "Choose a channel" };
const KINDS: { readonly [type: number]: Kind } = { 5: "user", 6: "role", 7: "mentionable", 8: "channel" };

/** Components inside of one. */
function inside(component: Part): Part[] {
  return [...parts(component["components"]), ...[component["accessory"], component["component"]].filter(isPart)];
}
function* all(components: Part[], depth = 0): Generator<Part> {
  if (depth > DEPTH_MAX) return;
  for (const component of components) { yield component; yield* all(inside(component), depth + 1); }
}

export function Components({ message, names }: { message: Message; names: Names }): VNode | null {
  watch("interactions");
  const top = parts(message.components);
  if (top.length === 0) return null;
  const draw = new Drawing(message, names), fault = interact.faultOf(message.id);
  return (
    <div class="components">
      {top.map((component, at) => <Drawn key={at} node={draw.one(component, 0)} />)}
      <div role="alert">{fault && <p class="fault small">{fault}</p>}</div>
    </div>
  );
}

const Drawn = ({ node }: { node: ComponentChildren }): VNode => <>{node}</>;

class Drawing {
  #left = PARTS_MAX;
  constructor(readonly message: Message, readonly names: Names) {}

  one(component: Part, depth: number): ComponentChildren {
    if (depth > DEPTH_MAX || --this.#left < 0) return null;
    const some = (list: unknown): ComponentChildren => parts(list).map((inner, at) => <Drawn key={at} node={this.one(inner, depth + 1)} />);
    switch (component["type"]) {
      case 1: return <div class="component-row">{some(component["components"])}</div>;
      case 2: return this.#button(component);
      case 3: case 5: case 6: case 7: case 8: return <Menu message={this.message} component={component} />;
      case 9: return (
        <div class="section"><div>{some(component["components"])}</div>{isPart(component["accessory"]) && <div class="accessory">{this.one(component["accessory"], depth + 1)}</div>}</div>
      );
      case 10: return text(component["content"]) ? <Markdown text={text(component["content"])} names={this.names} /> : null;
      case 11: return this.#media(component, "small-picture");
      case 12: return <div class="gallery">{parts(component["items"]).slice(0, 10).map((item, at) => <Drawn key={at} node={this.#media(item, "")} />)}</div>;
      case 13: {
        const file = this.#file(part(component["file"])["url"]);
        const shown = file ? <FileRow file={file} /> : <Link to={part(component["file"])["url"]} className="elsewhere"><Icon name="attach" />{text(component["name"]) || "A file"}</Link>;
        return component["spoiler"] === true ? <Spoiler>{shown}</Spoiler> : shown;
      }
      case 14: return component["divider"] === false ? <div class={`gap ${component["spacing"] === 2 ? "large" : ""}`} /> : <hr class={component["spacing"] === 2 ? "large" : ""} />;
      case 17: {
        const box = <div class="container" style={{ borderLeftColor: hex(component["accent_color"]) }}>{some(component["components"])}</div>;
        return component["spoiler"] === true ? <Cover>{box}</Cover> : box;
      }
      default: return <p class="quiet small">A part that this page does not show (component {text(component["type"]) || "without a type"}).</p>;
    }
  }

  #button(component: Part): ComponentChildren {
    const emoji = part(component["emoji"]), label = text(component["label"]);
    const shown = <>{text(emoji["id"]) ? <CustomEmoji id={text(emoji["id"])} name={text(emoji["name"])} /> : text(emoji["name"]) && <span aria-hidden={label ? "true" : undefined}>{text(emoji["name"])}</span>}{label || (!text(emoji["name"]) && "Button")}</>;
    if (component["style"] === LINK && webUrl(component["url"])) return <Link to={component["url"]} className="component-button link-button">{shown}<Icon name="outside" /></Link>;
    const used = interact.usedOf(this.message.id), isWaiting = used !== undefined && used === component["custom_id"];
    return (
      <button type="button" class={`component-button style-${Number(component["style"]) || 2} ${isWaiting ? "waiting" : ""}`} disabled={component["disabled"] === true || !isUsable(this.message)} aria-disabled={used !== undefined} aria-busy={isWaiting}
        onClick={() => { if (used === undefined) interact.use(this.message, component); }}>{shown}</button>
    );
  }

  /** `attachment://NAME` is a file of the message. */
  #file(url: unknown): Attachment | undefined {
    const name = /^attachment:\/\/(.+)$/.exec(text(url))?.[1];
    return this.message.attachments.find((file) => (name === undefined ? file.url === url : file.filename === name));
  }

  #media(item: Part, className: string): ComponentChildren {
    const url = part(item["media"])["url"], file = this.#file(url);
    const picture = <Picture source={file?.url ?? url} alt={text(item["description"]) || file?.description || "Picture"} className={className} width={file?.width} height={file?.height} />;
    return item["spoiler"] === true ? <Cover>{picture}</Cover> : picture;
  }
}

/** Whether an application listens to the components of a message. */
const isUsable = (message: Message): boolean => message.author.bot === true && !message.state;
const limit = (value: unknown): number => (typeof value === "number" ? Math.min(25, value) : 1);

/** A menu. What was chosen stays in it until the application changes the message. */
function Menu({ message, component }: { message: Message; component: Part }): VNode {
  const type = Number(component["type"]), kind = KINDS[type];
  const entries = parts(component["options"]).slice(0, 25).map((option) => ({ value: text(option["value"]), label: text(option["label"]), description: text(option["description"]), emoji: isPart(option["emoji"]) ? option["emoji"] as { id?: string; name?: string } : null, isPreset: option["default"] === true }));
  const [last, setLast] = useState<{ of: Part; items: Item[] } | null>(null);
  const chosen = last?.of === component ? last.items : entries.filter(({ isPreset }) => isPreset);
  const label = text(component["placeholder"]) || PICK[type]!, [min, max] = [limit(component["min_values"]), limit(component["max_values"])];
  const used = interact.usedOf(message.id);
  const onDone = (items: Item[]): void => { closeLayer(); setLast({ of: component, items }); interact.use(message, component, items.map(({ value }) => value)); };
  const open = (anchor: HTMLElement): void => openLayer({
    key: `menu:${message.id}:${text(component["custom_id"])}`, anchor, label, isBelow: true, content: () => (kind
      ? <ChooseFound label={label} find={finder(message.channel_id, kind, Array.isArray(component["channel_types"]) ? component["channel_types"] : undefined)} chosen={chosen} min={min} max={max} onDone={onDone} />
      : <ChooseEntries label={label} entries={entries} chosen={chosen.map(({ value }) => value)} min={min} max={Math.min(max, entries.length)} onDone={onDone} />),
  });
  const shown = chosen.map((item) => item.label).join(", ");
  return (
    <button type="button" class={`component-select ${used === component["custom_id"] ? "waiting" : ""}`} aria-haspopup="dialog" aria-label={shown ? `${label}: ${shown}` : label} disabled={component["disabled"] === true || !isUsable(message)} aria-disabled={used !== undefined}
      onClick={(event) => { if (used === undefined) open(event.currentTarget); }}><span class={`name ${shown ? "" : "quiet"}`}>{shown || label}</span><Icon name="down" /></button>
  );
}

/** Hides a block until somebody wants to see it. */
function Cover({ children }: { children: ComponentChildren }): VNode {
  const [isOpen, setOpen] = useState(false);
  return isOpen ? <>{children}</> : <button type="button" class="cover" onClick={() => setOpen(true)}>Show spoiler</button>;
}

/** Files that no component shows. */
export function ownFiles(message: Message): Attachment[] {
  const top = parts(message.components);
  if (top.length === 0) return message.attachments;
  const urls = new Set<unknown>();
  for (const component of all(top)) for (const media of [component["media"], component["file"], ...parts(component["items"]).map((item) => item["media"])]) urls.add(part(media)["url"]);
  return message.attachments.filter((file) => !urls.has(file.url) && !urls.has(`attachment://${file.filename}`));
}

// --- Stickers

const LOTTIE = 3;

export function Stickers({ message }: { message: Message }): VNode | null {
  const stickers = message.sticker_items ?? [];
  if (stickers.length === 0) return null;
  return <div class="files">{stickers.map((sticker) => (sticker.format_type === LOTTIE
    ? <p key={sticker.id} class="quiet">Sticker: {sticker.name}</p> : <Picture key={sticker.id} source={`${location.origin}/stickers/${sticker.id}.png`} alt={`Sticker: ${sticker.name}`} className="sticker" />))}</div>;
}

// --- In one line

/** Whether there is nothing that this page can draw. */
export const isBlank = (message: Message): boolean =>
  !isLoading(message) && !message.content && message.attachments.length === 0 && parts(message.components).length === 0 && (hasNoEmbeds(message) || parts(message.embeds).length === 0) && !message.sticker_items?.length;

/** The message on one line, for replies, pins and questions. */
export function preview(message: Message, names: Names): string {
  const said = plainText(message.content, names);
  if (said) return said;
  for (const embed of hasNoEmbeds(message) ? [] : parts(message.embeds)) {
    const line = text(embed["title"]) || plainText(text(embed["description"]), names) || text(part(embed["author"])["name"]);
    if (line) return line;
  }
  for (const component of all(parts(message.components))) {
    const line = component["type"] === 10 ? plainText(text(component["content"]), names) : "";
    if (line) return line;
  }
  const file = message.attachments[0];
  if (file) return file.filename;
  if (message.sticker_items?.[0]) return `Sticker: ${message.sticker_items[0].name}`;
  return parts(message.components).length > 0 ? "buttons" : parts(message.embeds).length > 0 ? "an embed" : "an empty message";
}
