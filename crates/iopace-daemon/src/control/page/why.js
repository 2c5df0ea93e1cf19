// Bars that say why requests wait: one part per reason, with its colour, pattern and share.

import { byId, el, setAttribute, setText, show } from "./dom.js";
import { REASONS, eachTime, parts } from "./reasons.js";
import { count, percent, time } from "./format.js";
import { store } from "./store.js";

/** Parts from here on have their word written in them, in percent of the bar. */
const WORD_MIN = 14;

/** What the parts of a bar are parts of. */
const MEANS = {
  tasks: "where the time went",
  writeBack: "where the time of write-back went, for which nobody waits",
  now: "what waits now",
};

/** A bar; `isSmall` for one in a table. */
export class WhyBar {
  constructor(isSmall = false) {
    this.node = el("div", { class: isSmall ? "why small" : "why", role: "img" });
    this.pieces = REASONS.map(({ word }, i) => {
      const label = isSmall ? null : el("span", {}, word);
      return el("span", { class: `piece r${i}` }, label);
    });
    this.node.append(...this.pieces);
    this.isSmall = isSmall;
  }

  /** Shows where the time of an activity went. */
  update(activity) {
    const { values, sum, of } = parts(activity);
    this.pieces.forEach((piece, i) => {
      const share = sum === 0 ? 0 : (100 * values[i]) / sum;
      show(piece, share > 0);
      piece.style.width = `${share}%`;
      piece.classList.toggle("named", share >= WORD_MIN);
    });
    this.node.classList.toggle("idle", sum === 0);
    const shares = REASONS.map(({ word }, i) => ({ word, value: values[i] }));
    const words = shares
      .filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value)
      .map(({ word, value }) => `${word} ${percent(value, sum)}`);
    const nothing = "nothing was done and nothing waits";
    const text = sum === 0 ? nothing : `${MEANS[of]}: ${words.join(", ")}`;
    setAttribute(this.node, "aria-label", text);
    if (this.isSmall) {
      setAttribute(this.node, "title", text);
    }
    return words;
  }
}

const rows = [];
let bar = null;

/** Makes the card of the device. */
export function buildWhy() {
  bar = new WhyBar();
  byId("why-bar").append(bar.node);
  REASONS.forEach(({ word, means, change }, i) => {
    const share = el("td", { class: "num share" });
    const request = el("td", { class: "num" });
    const write = el("td", { class: "num" });
    const now = el("td", { class: "num" });
    const id = `why-${i}`;
    const toggle = el(
      "button",
      {
        type: "button",
        class: "plain",
        title: `${means} What changes it: ${change}.`,
        "aria-expanded": "false",
        "aria-controls": id,
        onclick: () => {
          const isOpen = toggle.getAttribute("aria-expanded") === "true";
          toggle.setAttribute("aria-expanded", String(!isOpen));
          show(more, !isOpen);
        },
      },
      el("span", { class: `swatch r${i}`, "aria-hidden": "true" }),
      word,
    );
    const about = el("td", { colspan: 5 }, `${means} What changes it: ${change}.`);
    const more = el("tr", { class: "more", id, hidden: true }, about);
    const row = el("tr", {}, el("th", { scope: "row" }, toggle), share, request, write, now);
    byId("why-rows").append(row, more);
    rows.push({ row, share, request, write, now });
  });
}

/** Shows the device. */
export function drawWhy(device) {
  const { activity, queue } = device;
  bar.update(activity);
  const { values, sum } = parts(activity);
  const each = eachTime(activity, store.latest.interval_ns);
  const told = (figure) => (figure > 0 ? time(figure) : "–");
  rows.forEach(({ row, share, request, write, now }, i) => {
    const waiting = activity.now[`${REASONS[i].key}_count`];
    setText(share, sum === 0 ? "–" : percent(values[i], sum));
    setText(request, told(each.request[i]));
    setText(write, told(each.write[i]));
    setText(now, count(waiting));
    row.classList.toggle("none", values[i] === 0 && waiting === 0);
  });
  const all = REASONS.reduce((total, { key }) => total + activity.now[`${key}_count`], 0);
  const oldest = time(activity.now.oldest_ns);
  const here = all === 1 ? "1 request is" : `${count(all)} requests are`;
  const text = all === 0 ? "No request is here." : `${here} here, the oldest for ${oldest}.`;
  setText(byId("why-now"), text);
  const reason = REASONS.find(({ key }) => key === queue.reason);
  const why = `Nothing more starts now because of: ${reason ? reason.word : queue.reason}`;
  setText(byId("why-reason"), all === 0 ? "" : why);
}
