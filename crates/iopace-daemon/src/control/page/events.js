// What an operator should know: the daemon's events and what was changed in this page.

import { get } from "./api.js";
import { arrange, byId, el, show } from "./dom.js";
import { clock } from "./format.js";
import { levelOfEvent } from "./levels.js";
import { mark } from "./store.js";

/** Events that are listed. */
const EVENTS_MAX = 100;

/** Two reports of one event may be so far apart, in ms: its age is taken at different moments. */
const SAME_EVENT = 2000;

let events = [];

/** Takes an event; `true` if it was not known. */
export function takeEvent({ device, age_ns: age, kind, text }) {
  const at = Date.now() - age / 1e6;
  const isSame = (event) =>
    event.device === device && event.text === text && Math.abs(event.at - at) < SAME_EVENT;
  if (events.some(isSame)) {
    return false;
  }
  const row = el(
    "li",
    {},
    el("time", { datetime: new Date(at).toISOString() }, clock(at)),
    el("span", { class: `kind ${levelOfEvent(kind)}` }, kind),
    el("span", { class: "device" }, device),
    el("span", { class: "what" }, text),
  );
  events.push({ device, at, kind, text, row });
  events.sort((a, b) => b.at - a.at);
  events = events.slice(0, EVENTS_MAX);
  if (device) {
    mark(device, kind, { at, isOwn: false });
  }
  return true;
}

/** Reads the latest events, as after a new connection. */
export async function readEvents() {
  try {
    (await get("/v1/events")).forEach(takeEvent);
    drawEvents();
  } catch {
    // The state of the connection is shown elsewhere; what is known stays.
  }
}

/** Shows them, the latest first. */
export function drawEvents() {
  arrange(byId("event-rows"), events.map(({ row }) => row));
  show(byId("event-none"), events.length === 0);
}
