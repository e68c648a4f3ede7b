// Modal: a form that an application shows, above the page. Escape closes it, and nothing is sent.

import type { ComponentChildren, VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { FindMany, finder, type Item, type Kind } from "./choose.tsx";
import { modal, nameOf, submit, type ModalShown } from "./interact.ts";
import { Markdown, type Names } from "./markdown.tsx";
import { IconButton } from "./ui.tsx";

type Part = { readonly [key: string]: unknown };
const isPart = (value: unknown): value is Part => typeof value === "object" && value !== null && !Array.isArray(value);
const parts = (value: unknown): Part[] => (Array.isArray(value) ? value.filter(isPart) : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const count = (value: unknown, otherwise: number): number => (typeof value === "number" ? value : otherwise);

const ROW = 1, STRING_SELECT = 3, TEXT_INPUT = 4, TEXT = 10, LABEL = 18;
const KINDS: { readonly [type: number]: Kind } = { 5: "user", 6: "role", 7: "mentionable", 8: "channel" };
const PARAGRAPH = 2;

type Filled = Map<string, string | Item[]>;

/** An input of the form, under the label of the row or of a label component. */
interface Input { component: Part; label: string; description: string }

/** Inputs and texts in their order. */
function* inputsOf(components: Part[]): Generator<Input | { content: string }> {
  for (const component of components) {
    if (component["type"] === TEXT) yield { content: text(component["content"]) };
    else if (component["type"] === ROW) for (const inner of parts(component["components"])) yield { component: inner, label: text(inner["label"]), description: "" };
    else if (component["type"] === LABEL && isPart(component["component"])) yield { component: component["component"], label: text(component["label"]), description: text(component["description"]) };
  }
}

const isRequired = (component: Part): boolean => component["required"] !== false;

/** What was filled in before the user did anything. */
function preset(shown: ModalShown): Filled {
  const filled: Filled = new Map();
  for (const input of inputsOf(shown.components)) {
    if (!("component" in input)) continue;
    const { component } = input, id = text(component["custom_id"]);
    if (component["type"] === TEXT_INPUT) filled.set(id, text(component["value"]));
    else filled.set(id, parts(component["options"]).filter((option) => option["default"] === true).map((option) => ({ value: text(option["value"]), label: text(option["label"]) })));
  }
  return filled;
}

/** The components as they are sent: with values, and without what only describes them. */
function filledIn(components: Part[], filled: Filled): unknown[] {
  return components.flatMap((component): unknown[] => {
    const { type } = component;
    if (type === ROW) return [{ type, components: filledIn(parts(component["components"]), filled) }];
    if (type === LABEL) return isPart(component["component"]) ? [{ type, component: filledIn([component["component"]], filled)[0] }] : [];
    if (type === TEXT) return [];
    const id = text(component["custom_id"]), value = filled.get(id);
    return [{ type, custom_id: id, ...(typeof value === "string" ? { value } : { values: (value ?? []).map((item) => item.value) }) }];
  });
}

/** Why the form cannot be sent, and the input that is meant. */
function faultIn(shown: ModalShown, filled: Filled): { id: string; why: string } | null {
  for (const input of inputsOf(shown.components)) {
    if (!("component" in input)) continue;
    const { component, label } = input, id = text(component["custom_id"]), value = filled.get(id);
    const length = typeof value === "string" ? [...value].length : (value?.length ?? 0);
    if (length === 0 && !isRequired(component)) continue;
    if (length === 0) return { id, why: `“${label}” is required.` };
    if (typeof value === "string" && length < count(component["min_length"], 0)) return { id, why: `“${label}” has at least ${count(component["min_length"], 0)} characters.` };
    if (typeof value !== "string" && length < count(component["min_values"], 1)) return { id, why: `“${label}”: choose at least ${count(component["min_values"], 1)}.` };
  }
  return null;
}

const PLAIN: Names = { user: () => "unknown", role: () => undefined, channel: () => undefined, onUser: () => {}, onChannel: () => {} };

export function Modals(): VNode | null {
  const shown = modal.value;
  return shown && <Form key={shown.id} shown={shown} />;
}

function Form({ shown }: { shown: ModalShown }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [filled, setFilled] = useState<Filled>(() => preset(shown));
  const [fault, setFault] = useState("");
  const [isBusy, setBusy] = useState(false);
  const fieldId = (id: string): string => `modal-${[...inputsOf(shown.components)].findIndex((input) => "component" in input && input.component["custom_id"] === id)}`;
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLElement>("input, textarea, select")?.focus();
    return () => (before && document.contains(before) ? before : document.getElementById("composer"))?.focus({ preventScroll: true });
  }, []);
  const close = (): void => { modal.value = null; };
  const set = (id: string, value: string | Item[]): void => { setFault(""); setFilled(new Map(filled).set(id, value)); };
  const send = (): void => {
    if (isBusy) return;
    const wrong = faultIn(shown, filled);
    if (wrong) { setFault(wrong.why); document.getElementById(fieldId(wrong.id))?.focus(); return; }
    setBusy(true);
    submit(shown, filledIn(shown.components, filled)).then(close, (error: Error) => { setFault(error.message); setBusy(false); });
  };
  return (
    <dialog class="modal" ref={dialog} aria-labelledby="modal-title" onCancel={close} onClose={close}>
      <form noValidate onSubmit={(event) => { event.preventDefault(); send(); }}>
        <div class="modal-head"><div><h2 id="modal-title">{shown.title}</h2><p class="quiet small">Asked by {nameOf(shown.application)}. Do not enter passwords here.</p></div><IconButton icon="close" label="Close without sending" onClick={close} /></div>
        <div class="modal-fields">
          {[...inputsOf(shown.components)].map((input, at) => ("component" in input
            ? <Field key={at} {...input} id={`modal-${at}`} channelId={shown.channel_id} value={filled.get(text(input.component["custom_id"]))} onChange={(value) => set(text(input.component["custom_id"]), value)} />
            : <Markdown key={at} text={input.content} names={PLAIN} />))}
        </div>
        <div role="alert">{fault && <p class="fault small">{fault}</p>}</div>
        <div class="row"><button type="submit" class="primary" disabled={isBusy}>{isBusy ? "Sending…" : "Send"}</button><button type="button" class="plain-button" onClick={close}>Cancel</button></div>
      </form>
    </dialog>
  );
}

function Field({ component, label, description, id, channelId, value, onChange }: Input & { id: string; channelId: string; value: string | Item[] | undefined; onChange: (value: string | Item[]) => void }): VNode {
  const { type } = component, options = parts(component["options"]), most = count(component["max_values"], 1);
  const kind = KINDS[Number(type)], placeholder = text(component["placeholder"]);
  const shared = { id, "aria-required": isRequired(component), "aria-describedby": description ? `${id}-note` : undefined };
  let input: ComponentChildren;
  if (type === TEXT_INPUT) {
    const of = { ...shared, maxLength: count(component["max_length"], 4000), placeholder, value: typeof value === "string" ? value : "" };
    input = component["style"] === PARAGRAPH ? <textarea rows={4} {...of} onInput={(event) => onChange(event.currentTarget.value)} /> : <input type="text" autocomplete="off" {...of} onInput={(event) => onChange(event.currentTarget.value)} />;
  } else if (type === STRING_SELECT) {
    const isChosen = (option: Part): boolean => typeof value !== "string" && !!value?.some((item) => item.value === option["value"]);
    input = (
      <select {...shared} multiple={most > 1} size={most > 1 ? Math.min(6, options.length) : undefined}
        onChange={(event) => onChange([...event.currentTarget.selectedOptions].filter((option) => option.value).slice(0, most).map((option) => ({ value: option.value, label: option.label })))}>
        {most === 1 && <option value="">{placeholder || "Choose…"}</option>}
        {options.map((option) => <option key={text(option["value"])} value={text(option["value"])} selected={isChosen(option)}>{text(option["label"])}{option["description"] ? ` · ${text(option["description"])}` : ""}</option>)}
      </select>
    );
  } else if (kind) {
    const types = Array.isArray(component["channel_types"]) ? component["channel_types"] as number[] : undefined;
    input = <FindMany id={id} label={label} placeholder={placeholder} isRequired={isRequired(component)} describedBy={description ? `${id}-note` : undefined} find={finder(channelId, kind, types)} max={most} chosen={typeof value === "string" ? [] : (value ?? [])} onChange={onChange} isFirst={false} />;
  } else input = <p class="quiet small">A part that this page does not show.</p>;
  return (
    <div class="modal-field">
      <label for={id}>{label}{!isRequired(component) && <span class="quiet"> (optional)</span>}</label>
      {description && <p class="quiet small" id={`${id}-note`}>{description}</p>}
      {input}
    </div>
  );
}
