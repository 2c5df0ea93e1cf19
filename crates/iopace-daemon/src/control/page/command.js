// Command lines, as they can be pasted.

import { el, setText } from "./dom.js";
import { store } from "./store.js";

/** How long a button says that it has copied, in ms. */
const COPIED_MS = 2000;

/** A word for a shell: in quotes, unless it means the same without. */
const shellWord = (word) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** A command of iopace with the control socket of this daemon: others may run on the machine. */
export function pasteable(command) {
  const { control } = store.status || {};
  const isAbout = /^iopace (?!serve)/.test(command) && !command.includes(" --control ");
  return control && isAbout ? `${command} --control ${shellWord(control)}` : command;
}

/** A button that copies what `code` says. */
export function copyButton(code) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      setText(button, "Copied");
      setTimeout(() => setText(button, "Copy"), COPIED_MS);
    } catch {
      getSelection().selectAllChildren(code); // To be copied by hand.
    }
  };
  const button = el("button", { type: "button", class: "small", onclick: copy }, "Copy");
  return button;
}
