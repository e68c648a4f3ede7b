// Parts of forms.

/** The fields of a form by their names; one that is empty is undefined. */
export function fieldsOf(form: HTMLFormElement): (name: string) => string | undefined {
  const data = new FormData(form);
  return (name) => String(data.get(name) ?? "").trim() || undefined;
}

export const whole = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));

export function Field({ label, name, value, min, max, step = 1 }: { label: string; name: string; value: number; min: number; max: number; step?: number }) {
  return <label class="field">{label}<input name={name} type="number" inputMode="decimal" defaultValue={String(value)} min={min} max={max} step={step} required /></label>;
}
