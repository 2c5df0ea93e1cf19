// Remedies as buttons, and the way back. What a remedy changes goes through the same routes, with
// the same token, as all that is set on the page; a kind that is not listed here is not sent.

import { devicePath, get, post } from "./api.js";
import { copyButton, pasteable } from "./command.js";
import { arrange, byId, el, setAttribute, setText, show } from "./dom.js";
import { clock } from "./format.js";
import { mark, store } from "./store.js";

/** When a remedy comes, goes or moves, none can be pressed for this long, in ms: somebody may be
 * about to press what was there before. */
const INERT_MS = 700;

/** Changes that can be undone. */
const DONE_MAX = 8;

/** The line that a file of a group has for a device, or null. */
function lineOf(text, device) {
  const line = text.split("\n").find((line) => line.startsWith(`${device} `));
  return line ? line.slice(device.length + 1) : null;
}

/** By kind: where it is sent, who is asked before, what of an answer (to that, and to a change) is
 * what holds, and what would bring that back. */
const KINDS = {
  group_file: {
    path: () => "/v1/groups/files",
    ask: async ({ group, file }) =>
      (await get(`/v1/groups/files?${new URLSearchParams({ group, file })}`))[0],
    held: ({ text }, device) => lineOf(text, device),
    // Keys that are not named keep their value: the line goes first.
    back: ({ group, file }, device, line) => {
      const lines = [`${device} default`, ...(line === null ? [] : [`${device} ${line}`])];
      return { group, file, text: lines.join("\n") };
    },
  },
  scheduler: {
    path: (device) => devicePath(device, "/scheduler"),
    ask: (_, device) => get(devicePath(device)),
    held: ({ scheduler: { inserted, algorithm, params } }) => ({ inserted, algorithm, params }),
    back: (_, __, { inserted, algorithm, params }) =>
      inserted ? { action: "configure", algorithm, set: params } : { action: "destroy" },
  },
  pace: {
    path: (device) => devicePath(device, "/pace"),
    ask: (_, device) => get(devicePath(device)),
    held: ({ pace }) => pace.policy,
    back: (_, __, policy) => ({ policy }),
  },
  window: {
    path: (device) => devicePath(device, "/window"),
    ask: (_, device) => get(devicePath(device)),
    // The depth that was set: what the policy has at the moment may be less.
    held: ({ window }) => ({ policy: window.policy, depth: window.depth_set }),
    back: (_, __, held) => held,
  },
};

/** Called after each change. */
let onChange = () => {};
/** Rows of remedies by command. */
let rows = new Map();
let done = [];
/** The timer that ends the time in which no remedy can be pressed, or null. */
let inert = null;
/** Buttons whose change is under way. */
const busy = new Set();

/** Sets up; `changed()` is called when something was set or undone. */
export function buildRemedies(changed) {
  onChange = changed;
}

function say(text, isError = false) {
  const node = byId("remedy-message");
  setAttribute(node, "role", isError ? "alert" : "status");
  node.classList.toggle("error", isError);
  setText(node, text);
}

/** Carries out what a button is for; one at a time. */
async function press(button, act) {
  busy.add(button);
  button.disabled = true;
  say("");
  try {
    await act();
  } catch (error) {
    say(error.text || error.message, true);
  }
  busy.delete(button);
  button.disabled = false;
  enable();
  onChange();
}

/** Lets the remedies be pressed, but for those under way and in the time in which none can be. */
function enable() {
  for (const { button } of rows.values()) {
    button.disabled = inert !== null || busy.has(button);
  }
}

/** No remedy can be pressed for a moment. */
function holdStill() {
  clearTimeout(inert);
  inert = setTimeout(() => {
    inert = null;
    enable();
  }, INERT_MS);
}

async function carryOut({ change, command }, device) {
  const kind = KINDS[change.kind];
  const before = kind.held(await kind.ask(change.body, device), device);
  const after = kind.held(await post(kind.path(device), change.body), device);
  mark(device, short(command));
  const undo = el("button", { type: "button", onclick: () => press(undo, takeBack) }, "Undo");
  const entry = { device, row: null };
  const takeBack = async () => {
    const now = kind.held(await kind.ask(change.body, device), device);
    if (JSON.stringify(now) !== JSON.stringify(after)) {
      throw new Error(`this has been changed since, so it is not undone: ${short(command)}`);
    }
    await post(kind.path(device), kind.back(change.body, device, before));
    mark(device, `undone: ${short(command)}`);
    done = done.filter((other) => other !== entry);
    say(`undone: ${short(command)}`);
    drawDone();
  };
  const time = el("time", { class: "note" }, clock(Date.now()));
  entry.row = el("li", {}, time, " set: ", el("code", {}, short(command)), undo);
  done = [entry, ...done].slice(0, DONE_MAX);
  say("set; the diagnosis looks at ten seconds, so it follows a little later");
  drawDone();
}

/** A command without what all have. */
const short = (command) => command.replace(/^iopace /, "");

function drawDone() {
  const own = done.filter(({ device }) => device === store.device);
  arrange(byId("done"), own.map(({ row }) => row));
}

function newRow(remedy, device) {
  const code = el("code", {}, pasteable(remedy.command));
  const about = el("p", { class: "note" });
  const isKnown = remedy.change && Object.hasOwn(KINDS, remedy.change.kind);
  const label = `Do it: ${remedy.command}`;
  const button = el("button", { type: "button", class: "primary", "aria-label": label }, "Do it");
  button.addEventListener("click", () => press(button, () => carryOut(row.remedy, device)));
  show(button, isKnown);
  const line = el("div", { class: "command" }, button, code, isKnown ? copyButton(code) : null);
  const row = { node: el("li", {}, line, about), about, button, remedy };
  return row;
}

/** Shows the remedies of a device, and what was done about it. */
export function drawRemedies(remedies, device) {
  const kept = new Map();
  for (const remedy of remedies) {
    const key = JSON.stringify([device, remedy.command]);
    const row = rows.get(key) || newRow(remedy, device);
    row.remedy = remedy;
    setText(row.about, `${remedy.effect}; price: ${remedy.price}`);
    kept.set(key, row);
  }
  const isMoved = [...kept.keys()].join("\n") !== [...rows.keys()].join("\n");
  rows = kept;
  if (isMoved) {
    holdStill();
  }
  enable();
  arrange(byId("remedies"), [...kept.values()].map(({ node }) => node));
  drawDone();
}
