// Keyboard, theme and the dialog that explains both.

import { byId, setAttribute, setText } from "./dom.js";

const THEME = "iopace-theme";
const THEMES = ["auto", "light", "dark"];

let theme = THEMES.includes(localStorage.getItem(THEME)) ? localStorage.getItem(THEME) : "auto";

function applyTheme(onTheme) {
  setAttribute(document.documentElement, "data-theme", theme === "auto" ? null : theme);
  setText(byId("theme"), `Theme: ${theme}`);
  onTheme();
}

/** Sets up the theme; `onTheme` is called when colours are others. */
export function buildTheme(onTheme) {
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem(THEME, theme);
    applyTheme(onTheme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onTheme);
  applyTheme(onTheme);
}

const isTyping = (node) => node.matches("input, select, textarea") || node.isContentEditable;

/** Sets up the keys; `pick(index)` shows a device. */
export function buildKeys(pick) {
  const help = byId("help");
  byId("help-open").addEventListener("click", () => help.showModal());
  byId("help-close").addEventListener("click", () => help.close());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) {
      return;
    }
    if (help.open || byId("login").open) {
      return;
    }
    if (event.key === "?") {
      help.showModal();
    } else if (event.key === "p") {
      byId("pause").click();
    } else if (event.key === "t") {
      byId("theme").click();
    } else if (event.key === "/") {
      byId("group-filter").focus();
    } else if (/^[1-9]$/.test(event.key)) {
      pick(Number(event.key) - 1);
    } else {
      return;
    }
    event.preventDefault();
  });
}
