// Command form: the options of a command, in place of the message box.

import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { FindBox, finder, type Find, type Item } from "./choose.tsx";
import * as interact from "./interact.ts";
import { BOOLEAN, CHANNEL, FILE, INTEGER, MENTIONABLE, NUMBER, ROLE, STRING, USER, type Invocable, type Option, type Values } from "./interact.ts";
import { Avatar, IconButton } from "./ui.tsx";

type Value = string | number | boolean;
const FINDS: { readonly [type: number]: "user" | "role" | "mentionable" | "channel" } = { [USER]: "user", [ROLE]: "role", [MENTIONABLE]: "mentionable", [CHANNEL]: "channel" };
/** What a value has to be, in words. */
function rule({ type, min_value: least, max_value: most, min_length: shortest, max_length: longest }: Option): string {
  const range = (from: number | undefined, to: number | undefined, what: string): string => (from !== undefined && to !== undefined ? `${from} to ${to}${what}` : from !== undefined ? `at least ${from}${what}` : to !== undefined ? `at most ${to}${what}` : "");
  if (type === INTEGER || type === NUMBER) return [type === INTEGER ? "whole number" : "number", range(least, most, "")].filter(Boolean).join(", ");
  return type === STRING ? range(shortest, longest, " characters") : "";
}

/** Why a value cannot be sent; empty if it can. */
function faultOf(option: Option, value: Value | undefined, text: string): string {
  const { type, name, required } = option;
  if (FINDS[type] && value === undefined && text) return `“${name}”: choose one of the list.`;
  if (value === undefined || value === "") return required ? `“${name}” is required.` : "";
  if ((type === INTEGER || type === NUMBER) && !option.choices) {
    const number = Number(value);
    if (!Number.isFinite(number) || (type === INTEGER && !Number.isInteger(number)) || number < (option.min_value ?? -Infinity) || number > (option.max_value ?? Infinity)) return `“${name}”: ${rule(option)}.`;
  }
  const length = type === STRING ? [...String(value)].length : 0;
  if (type === STRING && (length < (option.min_length ?? 0) || length > (option.max_length ?? Infinity))) return `“${name}”: ${rule(option)}.`;
  return "";
}

interface FieldProps { channelId: string; command: Invocable; option: Option; isFirst: boolean; values: Values; onValue: (value: Value | undefined, text: string) => void }

function Field({ channelId, command, option, isFirst, values, onValue }: FieldProps): VNode {
  const { type, name, description, required: isRequired = false, choices, autocomplete } = option;
  const id = `option-${name}`, note = rule(option);
  const [chosen, setChosen] = useState<Item | null>(null);
  const shared = { id, "aria-describedby": `${id}-note`, "aria-required": isRequired, "data-first": isFirst };
  const isNumber = type === INTEGER || type === NUMBER;
  const finds = FINDS[type];
  const proposals: Find = async () => (await interact.complete(channelId, command, values, name)).map((choice) => ({ value: String(choice.value), label: choice.name }));
  const take = (item: Item | null): void => { setChosen(item); if (item) onValue(isNumber ? Number(item.value) : item.value, item.label); };
  return (
    <div class="command-field">
      <label for={id}>{name}{isRequired && <span class="quiet"> (required)</span>}</label>
      {choices?.length ? (
        <select {...shared} onChange={(event) => { const choice = choices[event.currentTarget.selectedIndex - 1]; onValue(choice?.value, choice?.name ?? ""); }}><option value="">{isRequired ? "Choose…" : "Not set"}</option>{choices.map((choice) => <option key={choice.name}>{choice.name}</option>)}</select>
      ) : type === BOOLEAN ? (
        <select {...shared} onChange={({ currentTarget: { value } }) => onValue(value === "" ? undefined : value === "yes", value)}><option value="">{isRequired ? "Choose…" : "Not set"}</option><option value="yes">Yes</option><option value="no">No</option></select>
      ) : finds ? (
        <FindBox id={id} label={name} describedBy={`${id}-note`} isRequired={isRequired} isFirst={isFirst} find={finder(channelId, finds, option.channel_types)} chosen={chosen} onChoose={(item) => { setChosen(item); onValue(item?.value, item?.label ?? ""); }} onText={(text) => onValue(undefined, text)} />
      ) : autocomplete ? (
        <FindBox id={id} label={name} describedBy={`${id}-note`} isRequired={isRequired} isFirst={isFirst} find={proposals} chosen={chosen} onChoose={take} onText={(text) => onValue(text || undefined, text)} />
      ) : (
        <input {...shared} type="text" autocomplete="off" defaultValue={String(values.get(name) ?? "")} inputMode={isNumber ? (type === INTEGER ? "numeric" : "decimal") : undefined} maxLength={option.max_length} disabled={type === FILE}
          placeholder={type === FILE ? "This node takes no files in commands" : undefined} onInput={({ currentTarget: { value } }) => onValue(value.trim() === "" ? undefined : isNumber ? value.trim() : value, value)} />
      )}
      <p class="quiet small" id={`${id}-note`}>{description}{note && ` · ${note}`}</p>
    </div>
  );
}

/** Whether an option is a text box without a list. */
const isPlain = (option: Option | undefined): option is Option => !!option && [STRING, INTEGER, NUMBER].includes(option.type) && !option.choices?.length && !option.autocomplete;

/** `rest` goes into the first option, if that is a text box. */
export function CommandForm({ channelId, command, rest = "", onClose }: { channelId: string; command: Invocable; rest?: string; onClose: () => void }): VNode {
  const [values, setValues] = useState<Values>(() => new Map(rest && isPlain(command.options[0]) ? [[command.options[0].name, rest]] : []));
  const [fault, setFault] = useState("");
  const texts = useRef(new Map<string, string>()), form = useRef<HTMLFormElement>(null);
  const [isBusy, setBusy] = useState(false);
  const { application, options } = command;
  // Before the next key.
  useLayoutEffect(() => (form.current?.querySelector<HTMLElement>("[data-first=true]") ?? form.current?.querySelector<HTMLElement>("button[type=submit]"))?.focus(), []);
  const set = (name: string, value: Value | undefined, text: string): void => {
    texts.current.set(name, text);
    setFault("");
    setValues((before) => { const next = new Map(before); if (value === undefined) next.delete(name); else next.set(name, value); return next; });
  };
  const submit = (): void => {
    if (isBusy) return;
    const wrong = options.find((option) => faultOf(option, values.get(option.name), texts.current.get(option.name) ?? ""));
    if (wrong) {
      setFault(faultOf(wrong, values.get(wrong.name), texts.current.get(wrong.name) ?? ""));
      document.getElementById(`option-${wrong.name}`)?.focus();
      return;
    }
    setBusy(true);
    interact.invoke(channelId, command, values).then(onClose, (error: Error) => { setFault(error.message); setBusy(false); });
  };
  return (
    <form class="composer-area command-form" ref={form} aria-label={`Command /${command.name}`} noValidate onSubmit={(event) => { event.preventDefault(); submit(); }}
      onKeyDown={(event) => { if (event.key === "Escape" && !event.isComposing) { event.preventDefault(); onClose(); } }}>
      <div class="command-box">
        <div class="command-head">{application && <Avatar user={application.bot ?? application} name={interact.nameOf(application)} size={24} />}<b>/{command.name}</b><span class="quiet name">{command.description}</span><span class="spacer" /><IconButton icon="close" label="Leave the command" onClick={onClose} /></div>
        {options.length > 0 && <div class="command-fields">{options.map((option, at) => <Field key={option.name} channelId={channelId} command={command} option={option} isFirst={at === 0} values={values} onValue={(value, text) => set(option.name, value, text)} />)}</div>}
        <div role="alert">{fault && <p class="fault small">{fault}</p>}</div>
        <div class="row"><button type="submit" class="primary" disabled={isBusy}>{isBusy ? "Sending…" : `Send /${command.name}`}</button><span class="quiet small only-wide">{interact.nameOf(application)} answers. Escape leads back to the message box.</span></div>
      </div>
    </form>
  );
}
