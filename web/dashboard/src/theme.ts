// Theme: the system's, or the one that was chosen.

import { effect, signal } from "@preact/signals";

export type Choice = "system" | "light" | "dark";
const stored = localStorage.getItem("theme");
export const choice = signal<Choice>(stored === "light" || stored === "dark" ? stored : "system");
const dark = matchMedia("(prefers-color-scheme: dark)");
/** What is shown. Canvases draw again when it changes. */
export const theme = signal<"light" | "dark">("light");

const apply = () => {
  theme.value = choice.value === "system" ? (dark.matches ? "dark" : "light") : choice.value;
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("theme", choice.value);
};
effect(apply);
dark.addEventListener("change", apply);
