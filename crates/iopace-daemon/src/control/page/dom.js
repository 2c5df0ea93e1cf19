// Making and changing elements. What has not changed is not touched, so that focus, selections and
// edits outlive every update. Styles are set by property only: the page allows no inline style.

/** An element: `el("td", {class: "num"}, "text", child)`. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else if (value === true) {
      node.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value);
    }
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** Sets the text of an element, if it is another one. */
export function setText(node, text) {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Sets an attribute, if it is another one; null takes it away. */
export function setAttribute(node, name, value) {
  if (value === null) {
    node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

/** Shows or hides. */
export function show(node, isShown) {
  if (node.hidden === isShown) {
    node.hidden = !isShown;
  }
}

/** Brings the children of `parent` into this order, moving no more of them than needed. */
export function arrange(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) {
    if (!wanted.has(child)) {
      child.remove();
    }
  }
  let at = parent.firstElementChild;
  for (const child of children) {
    if (child === at) {
      at = at.nextElementSibling;
    } else {
      parent.insertBefore(child, at);
    }
  }
}

const SVG = "http://www.w3.org/2000/svg";

/** A piece of a line, as it is drawn in a chart, for its legend. */
export function lineSwatch(colour, dash = []) {
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "line");
  const all = { x1: 0, y1: 5, x2: 22, y2: 5, "stroke-width": 2.5 };
  for (const [name, value] of Object.entries(all)) {
    line.setAttribute(name, value);
  }
  if (dash.length > 0) {
    line.setAttribute("stroke-dasharray", dash.map((part) => part / 1.5).join(" "));
  }
  svg.setAttribute("class", `line-swatch l-${colour}`);
  svg.setAttribute("viewBox", "0 0 22 10");
  svg.setAttribute("aria-hidden", "true");
  svg.append(line);
  return svg;
}
