// The fields for the parameters of a scheduler: value, unit, bounds, default, and what each does.

import { el, setAttribute } from "./dom.js";

/** The parameters of the scheduler that is chosen. */
export class Params {
  constructor(host, onEdit) {
    this.host = host;
    this.onEdit = onEdit;
    this.fields = [];
    this.shown = null;
  }

  /** Shows parameters with the values in force; those that are not known have their default. */
  show(specs, values) {
    const key = JSON.stringify([specs.map(({ name }) => name), values]);
    if (key === this.shown) {
      return;
    }
    this.shown = key;
    this.fields = specs.map((spec) => this.field(spec, values[spec.name] ?? spec.default));
    this.host.replaceChildren(...this.fields.map(({ node }) => node));
  }

  field({ name, unit, min, max, default: normal, doc }, value) {
    const id = `param-${name}`;
    const held = String(value);
    const input = el("input", {
      id,
      type: "text",
      inputmode: "numeric",
      autocomplete: "off",
      "aria-describedby": `${id}-doc`,
      oninput: () => {
        setAttribute(input, "aria-invalid", isInside(input.value, min, max) ? null : "true");
        this.onEdit();
      },
    });
    input.value = held;
    const bounds = `${min} to ${max} ${unit}, default ${normal}`;
    const label = el("label", { for: id }, name);
    const box = el("span", { class: "with-unit" }, input, el("span", { class: "unit" }, unit));
    const about = el("small", { id: `${id}-doc` }, `${bounds}: ${doc}`);
    return { name, input, held, node: el("div", { class: "param" }, label, box, about) };
  }

  /** Whether a field says something else than what holds. */
  isEdited() {
    return this.fields.some(({ input, held }) => input.value.trim() !== held);
  }

  /** The parameters that were changed, by name. */
  set(wholeNumber) {
    const changed = this.fields.filter(({ input, held }) => input.value.trim() !== held);
    return Object.fromEntries(
      changed.map(({ name, input }) => [name, wholeNumber(input.value, name)]),
    );
  }
}

const isInside = (text, min, max) =>
  /^\d+$/.test(text.trim()) && Number(text) >= min && Number(text) <= max;
