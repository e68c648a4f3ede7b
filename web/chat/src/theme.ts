// Theme: the system's, or the one that was chosen. The dashboard of the same node keeps the choice by the same name.

import { effect, signal } from "@preact/signals";

export type Choice = "system" | "light" | "dark";
export const CHOICES: readonly Choice[] = ["system", "light", "dark"];
const KEY = "theme";

const stored = localStorage.getItem(KEY);
export const choice = signal<Choice>(stored === "light" || stored === "dark" ? stored : "system");
const query = matchMedia("(prefers-color-scheme: dark)");
const isSystemDark = signal(query.matches);
query.addEventListener("change", () => (isSystemDark.value = query.matches));

export const isDark = signal(false);

effect(() => {
  isDark.value = choice.value === "system" ? isSystemDark.value : choice.value === "dark";
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  if (localStorage.getItem(KEY) !== choice.value) localStorage.setItem(KEY, choice.value);
});
