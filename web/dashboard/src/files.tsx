// Files: bytes of uploaded files by owner, against the shares of the settings.

import { bytes, exact, join, percent } from "./format.ts";
import { useReport } from "./report.ts";
import type { FilesReport } from "./types.ts";
import { Bars, Fault } from "./ui.tsx";

const SHOWN_MAX = 8;
const EVERY_MS = 30_000;
const COLOR = "#2f5fe0", FULL_COLOR = "#d9822b";
/** Of a limit: from here on it is near. */
const NEAR = 0.8;

/** Its share of a limit, if there is one. */
const ofLimit = (value: number, max: number | null): string => (max ? `${join(percent(value / max))} of its ${join(bytes(max))}` : "");
const colorOf = (value: number, max: number | null): string => (max && value >= NEAR * max ? FULL_COLOR : COLOR);

export function Files() {
  const { value, fault, retry } = useReport<FilesReport>(`node/files?limit=${SHOWN_MAX}`, () => EVERY_MS);
  if (!value) return fault ? <Fault fault={fault} retry={retry} /> : null;
  const says = `${join(bytes(value.bytes))} of at most ${join(bytes(value.bytes_max))}, pictures ${join(bytes(value.pictures_bytes))}; messages with files are refused from ${join(bytes(value.attachments_bytes_max))} on.`;
  return (
    <>
      <Bars title="Files by guild" says={says} format={bytes} empty="No file was uploaded." rows={value.guilds.map(({ id, name, files, bytes: size }) => ({
        id, label: name || id, isCode: !name, value: size, note: [`${exact(files)} ${files === 1 ? "file" : "files"}`, ofLimit(size, value.guild_bytes_max)].filter(Boolean).join(", "), color: colorOf(size, value.guild_bytes_max) }))} />
      {value.uploaders.length > 0 && <Bars title="Uploads of the last day, by account" format={bytes} empty="" rows={value.uploaders.map(({ id, name, day_bytes }) => ({
        id, label: name || id, isCode: !name, value: day_bytes, note: ofLimit(day_bytes, value.account_day_bytes_max), color: colorOf(day_bytes, value.account_day_bytes_max) }))} />}
    </>
  );
}
