// A field that is set by hand while the page goes on: an edit stands until it is set or taken back,
// whatever comes meanwhile; a refusal is shown below it.

import { el, setAttribute, setText, show } from "./dom.js";

let number = 0;

/**
 * Field in a table. `options`: `label` (what it is, for screen readers), `kind` ("text" or a list
 * of choices), `placeholder`, `submit(text)` (sets it; returns `now`, the text that holds then, and
 * `warning`, what of it does not do what it says; throws a refusal), and `note(text, isError,
 * isWarning)` (shows a message; null takes it away).
 */
export class Edit {
  constructor({ label, kind = "text", placeholder, width, submit, note, hint }) {
    Object.assign(this, { submit, note, hint });
    number += 1;
    this.id = `edit-${number}`;
    this.held = null;
    this.isBusy = false;
    this.input =
      kind === "text"
        ? el("input", { type: "text", size: width, placeholder, spellcheck: "false" })
        : el("select", {}, ...kind.map((choice) => el("option", { value: choice }, choice)));
    this.input.autocomplete = "off";
    setAttribute(this.input, "aria-label", label);
    setAttribute(this.input, "id", this.id);
    this.set = el("button", { type: "submit", class: "small" }, "Set");
    this.cancel = el("button", { type: "button", class: "small", title: "Undo" }, "×");
    setAttribute(this.cancel, "aria-label", `Undo the edit of ${label}`);
    this.buttons = el("span", { class: "edit-buttons" }, this.set, this.cancel);
    this.node = el("form", { class: "edit" }, this.input, this.buttons);
    this.node.addEventListener("submit", (event) => this.send(event));
    this.input.addEventListener("input", () => this.refresh());
    this.input.addEventListener("change", () => this.refresh());
    this.input.addEventListener("focus", () => this.hint && !this.isEdited() && note(this.hint));
    this.input.addEventListener("blur", () => this.hint && !this.isEdited() && note(null));
    this.cancel.addEventListener("click", () => this.undo());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isEdited()) {
        event.stopPropagation();
        this.undo();
      }
    });
    this.refresh();
  }

  /** Whether something else stands in it than what holds. */
  isEdited() {
    return this.held !== null && this.input.value.trim() !== this.held;
  }

  /** What holds; an edit is not touched. */
  hold(text) {
    if (text === this.held || this.isBusy) {
      return;
    }
    const isEdited = this.isEdited();
    this.held = text;
    if (!isEdited) {
      this.input.value = text;
    }
    this.refresh();
  }

  refresh() {
    const isEdited = this.isEdited();
    show(this.buttons, isEdited);
    this.node.classList.toggle("edited", isEdited);
  }

  undo() {
    this.input.value = this.held;
    this.input.removeAttribute("aria-invalid");
    this.note(null);
    this.refresh();
    this.input.focus();
  }

  async send(event) {
    event.preventDefault();
    if (!this.isEdited() || this.isBusy) {
      return;
    }
    this.isBusy = true;
    this.set.disabled = true;
    setText(this.set, "…");
    try {
      const { now, warning } = await this.submit(this.input.value.trim());
      this.held = now;
      this.input.value = now;
      this.input.removeAttribute("aria-invalid");
      const but = warning ? `; but ${warning}` : "";
      this.note(`set; ${now === "" ? "nothing" : now} holds now${but}`, false, warning !== "");
    } catch (error) {
      this.input.setAttribute("aria-invalid", "true");
      this.note(error.text || String(error), true);
    } finally {
      this.isBusy = false;
      this.set.disabled = false;
      setText(this.set, "Set");
      // Who has gone on to another field meanwhile stays there; a button that went leaves nobody.
      const isHere = this.node.contains(document.activeElement);
      this.refresh();
      if (isHere || document.activeElement === document.body) {
        this.input.focus();
      }
    }
  }
}
