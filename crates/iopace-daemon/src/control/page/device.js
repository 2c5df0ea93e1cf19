// What can be changed about a device: its scheduler with parameters, its pacing, its window. A form
// keeps what was entered until it is set or undone; a refusal is shown below it.

import { size } from "./format.js";
import { devicePath, get, post } from "./api.js";
import { byId, el, setAttribute, setText, show } from "./dom.js";
import { Params } from "./params.js";
import { inWords } from "./rows.js";
import { mark, store } from "./store.js";

/** The choice of having no scheduler inserted. */
const NONE = "";

let schedulers = [];
let policies = { pace: [], window: [] };
let params = null;
/** What is chosen in each form. */
const CHOICES = { scheduler: "scheduler", pace: "pace-policy", window: "window-policy" };
/** What holds: the last report of the device. */
let held = null;
/** Which forms are edited, and so left alone. */
const edited = { scheduler: false, pace: false, window: false };

/** Reads what can be chosen. */
export async function readChoices() {
  const read = await Promise.all([get("/v1/schedulers"), get("/v1/policies")]);
  if (JSON.stringify(read) === JSON.stringify([schedulers, policies])) {
    return; // As before the connection broke: what is chosen stays.
  }
  [schedulers, policies] = read;
  const options = schedulers.map(({ name }) => el("option", { value: name }, name));
  const none = el("option", { value: NONE }, "none");
  byId("scheduler").replaceChildren(none, ...options);
  for (const stage of ["pace", "window"]) {
    const all = policies[stage].map(({ name, default: isDefault }) =>
      el("option", { value: name }, isDefault ? `${name} (default)` : name),
    );
    byId(`${stage}-policy`).replaceChildren(...all);
  }
}

/** Sets up the forms; once. */
export function buildDevice() {
  params = new Params(byId("scheduler-params"), () => touch("scheduler"));
  byId("scheduler").addEventListener("change", () => {
    showScheduler();
    touch("scheduler");
  });
  byId("pace-policy").addEventListener("change", () => touch("pace"));
  byId("window-policy").addEventListener("change", () => touch("window"));
  byId("window-depth").addEventListener("input", () => touch("window"));
  byId("scheduler-form").addEventListener("submit", (event) => send(event, "scheduler"));
  byId("pace-form").addEventListener("submit", (event) => send(event, "pace"));
  byId("window-form").addEventListener("submit", (event) => send(event, "window"));
  for (const form of Object.keys(edited)) {
    byId(`${form}-undo`).addEventListener("click", () => {
      edited[form] = false;
      say(form, "");
      hold(held);
      byId(CHOICES[form]).focus();
    });
  }
}

/** Reads the device anew, as when another one is shown or somebody else has changed it. */
export async function readDevice(isOther = false) {
  const name = store.device;
  if (isOther) {
    Object.keys(edited).forEach((form) => {
      edited[form] = false;
      say(form, "");
    });
  }
  const report = await get(devicePath(name));
  if (store.device === name) {
    hold(report);
  }
}

/** Whether the scheduler takes the disk for one with a head: true, false, or not known. */
const hasHead = ({ disk }) => (disk ? disk.has_head : null);

/** Reads the device if the stream says that something else is at work than what is shown. */
export function watchDevice(live) {
  const { scheduler, inserted, disk, pace, window } = live;
  if (!held || held.name !== live.device || held.isBeingRead) {
    return;
  }
  const isSame =
    held.scheduler.algorithm === scheduler &&
    held.scheduler.inserted === inserted &&
    hasHead(held.scheduler) === hasHead({ disk }) &&
    (held.pace ? held.pace.policy : null) === (pace ? pace.policy : null) &&
    held.window.policy === window.policy;
  if (!isSame) {
    held.isBeingRead = true;
    readDevice().catch(() => (held.isBeingRead = false));
  }
}

/** Takes away what was said of a change, if something else holds by now. */
function forgetMessages({ scheduler, pace, window }) {
  const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const words = ({ algorithm, inserted, params: values }) => [algorithm, inserted, values];
  const changed = {
    scheduler: held && !isSame(words(held.scheduler), words(scheduler)),
    pace: held && (held.pace && held.pace.policy) !== (pace && pace.policy),
    window: held && held.window.policy !== window.policy,
  };
  for (const form of Object.keys(edited)) {
    if (changed[form] && !edited[form]) {
      say(form, "");
    }
  }
}

/** Shows what holds, where nothing is edited. */
function hold(report) {
  if (!report) {
    return;
  }
  forgetMessages(report);
  held = report;
  const { scheduler, pace, window } = report;
  const select = byId("scheduler");
  setText(select.options[0], `auto: ${scheduler.base}`);
  if (!edited.scheduler) {
    select.value = scheduler.inserted ? scheduler.algorithm : NONE;
    showScheduler();
  }
  show(byId("pace-form"), pace !== null);
  if (pace && !edited.pace) {
    byId("pace-policy").value = pace.policy;
  }
  if (!edited.window) {
    byId("window-policy").value = window.policy;
    byId("window-depth").value = String(window.depth_set);
  }
  const kind = report.model ? `${report.kind} ${report.model}` : report.path || report.kind;
  setText(byId("device-about"), `${kind}${sizeOf(report)}, ${report.io_engine}`);
  setText(byId("scheduler-now"), inForce(scheduler));
  refresh();
}

/** Size and flags, each behind a comma; a directory has no size. */
const sizeOf = ({ size_bytes: bytes, direct }) =>
  `${bytes === null ? "" : `, ${size(bytes)}`}${direct ? ", direct" : ""}`;

/** What a scheduler takes the disk for, in words. */
function diskWords({ has_head: hasHead, learned }) {
  if (hasHead === null) {
    return "disk not known yet";
  }
  return `${hasHead ? "has a head" : "no head"}${learned ? ", learned" : ""}`;
}

/** What is in force, in words. */
function inForce({ algorithm, inserted, disk, params: values }) {
  const set = Object.entries(values).map(([name, value]) => `${name}=${value}`);
  const how = [inserted ? "inserted" : "auto", disk && diskWords(disk)].filter(Boolean).join(": ");
  return `In force: ${algorithm} (${how})${set.length > 0 ? `: ${set.join(" ")}` : ""}`;
}

function specOf(name) {
  return schedulers.find((spec) => spec.name === name) || null;
}

/** Shows the scheduler that is chosen: what it does, and its parameters. */
function showScheduler() {
  const name = byId("scheduler").value;
  const spec = specOf(name);
  const { scheduler } = held;
  const isSame = scheduler.inserted && scheduler.algorithm === name;
  const base = specOf(scheduler.base);
  const about = (spec || base || { summary: "" }).summary;
  setText(byId("scheduler-about"), about);
  params.show(spec ? spec.params : [], isSame ? scheduler.params : {});
}

function touch(form) {
  edited[form] = true;
  refresh();
}

function aboutPolicy(stage) {
  const name = byId(`${stage}-policy`).value;
  const spec = policies[stage].find((policy) => policy.name === name);
  setText(byId(`${stage}-about`), spec ? spec.summary : "");
}

/** Names what the buttons would do, and shows them where there is something to do. */
function refresh() {
  const { inserted, algorithm } = held.scheduler;
  const name = byId("scheduler").value;
  let verb = inserted ? `Exchange ${algorithm} for ${name}` : `Insert ${name}`;
  if (name === NONE) {
    verb = `Take out ${algorithm}`;
  } else if (inserted && name === algorithm) {
    verb = "Set parameters";
  }
  const isSame = name === NONE ? !inserted : inserted && name === algorithm && !params.isEdited();
  setText(byId("scheduler-set"), isSame ? "Set" : verb);
  byId("scheduler-set").disabled = isSame;
  show(byId("scheduler-undo"), !isSame);
  if (isSame) {
    edited.scheduler = false;
  }
  const isPace = held.pace !== null && byId("pace-policy").value !== held.pace.policy;
  const isWindow =
    byId("window-policy").value !== held.window.policy ||
    byId("window-depth").value.trim() !== String(held.window.depth_set);
  for (const [form, isChanged] of [["pace", isPace], ["window", isWindow]]) {
    edited[form] = isChanged;
    byId(`${form}-set`).disabled = !isChanged;
    show(byId(`${form}-undo`), isChanged);
    aboutPolicy(form);
  }
}

function say(form, text, isError = false, isWarning = false) {
  const node = byId(`${form}-message`);
  setAttribute(node, "role", isError ? "alert" : "status");
  node.classList.toggle("error", isError);
  node.classList.toggle("warning", isWarning);
  setText(node, text);
}

/** What a form asks for: path and body. */
function changeOf(form) {
  if (form === "pace") {
    return { policy: byId("pace-policy").value };
  }
  if (form === "window") {
    const policy = byId("window-policy").value;
    const depth = wholeNumber(byId("window-depth").value, "the depth");
    return { ...(policy !== held.window.policy && { policy }), depth };
  }
  const algorithm = byId("scheduler").value;
  const { inserted } = held.scheduler;
  if (algorithm === NONE) {
    return { action: "destroy" };
  }
  return { action: inserted ? "configure" : "insert", algorithm, set: params.set(wholeNumber) };
}

/** The number that a text says; the bounds are the daemon's to know. */
function wholeNumber(text, what) {
  if (!/^\d{1,15}$/.test(text.trim())) {
    throw new Error(`${what} is a whole number, not '${text.trim()}'`);
  }
  return Number(text.trim());
}

/** What was done, for the mark in the charts and for the message; from what the daemon answered. */
function done(form, { scheduler, pace, window, queue }) {
  if (form === "pace") {
    return [`pace ${pace.policy}`, `set; in force: ${pace.policy}`];
  }
  if (form === "window") {
    const text = `${window.policy}, depth ${queue.window_depth}`;
    return [`window ${text}`, `set; in force: ${text}`];
  }
  return [scheduler.algorithm, "set; the device says:"];
}

/** Settings that the scheduler will not keep. */
function warningOf({ groups, groups_count: all, text, command }) {
  const more = all > groups.length ? ` and ${all - groups.length} more` : "";
  return `${groups.join(", ")}${more}: ${inWords({ text, command })}.`;
}

async function send(event, form) {
  event.preventDefault();
  const button = byId(`${form}-set`);
  if (button.disabled) {
    return;
  }
  const name = store.device;
  const isAtButton = document.activeElement === button;
  button.disabled = true;
  say(form, "");
  try {
    const report = await post(devicePath(name, `/${form}`), changeOf(form));
    const [marked, text] = done(form, report);
    mark(name, marked);
    if (store.device === name) {
      edited[form] = false;
      hold(report);
      const warned = (report.warnings || []).map(warningOf);
      const but = `set, but for ${warned.join(" For ")} The device says:`;
      say(form, warned.length > 0 ? but : text, false, warned.length > 0);
    }
  } catch (error) {
    say(form, error.text || error.message, true);
    button.disabled = false;
  }
  if (isAtButton) {
    // A button with nothing to do cannot have the focus.
    (button.disabled ? byId(CHOICES[form]) : button).focus();
  }
}
