// How long the requests of each group take, worst first, beside what they took while it was alone
// or what is set for it.

import { arrange, byId, el, setText, show } from "./dom.js";
import { colourOf } from "./colours.js";
import { shortLimits, time } from "./format.js";
import { levelOfEvent, levelOfTime, setLevel } from "./levels.js";
import { settingOf } from "./settings.js";
import { aloneOf, parentOf, pointsOf } from "./store.js";

/** Groups that are listed. */
const ROWS_MAX = 6;

/** The worst second of so many is told: who has few requests has none in many seconds. */
const SECONDS = 10;

/** The ends of the bars, which are logarithmic, in ns. */
const [SHORTEST, LONGEST] = [1e5, 1e10];

let rows = new Map();

/** The part of a bar, in percent. */
function part(nanos) {
  const inside = Math.min(LONGEST, Math.max(SHORTEST, nanos));
  return (100 * Math.log(inside / SHORTEST)) / Math.log(LONGEST / SHORTEST);
}

function newRow(group) {
  const swatch = el("span", { "aria-hidden": "true" });
  const fill = el("span", { "aria-hidden": "true" });
  const tick = el("span", { class: "tick", "aria-hidden": "true" });
  const value = el("td", { class: "num value" });
  const beside = el("td", { class: "note beside" });
  const name = el("th", { scope: "row" }, swatch, el("span", {}, group));
  const bar = el("td", { class: "bar" }, el("span", { class: "track" }, fill, tick));
  const row = el("tr", { title: group }, name, bar, value, beside);
  return { row, swatch, fill, tick, value, beside };
}

/** The tightest words there are for what a group may have at most: its own limit, or one above. */
function limitOf(group, device) {
  for (let at = group; at !== null; at = parentOf(at)) {
    const set = settingOf(at, "io.max", device, "max");
    if (set !== "max" && set !== "") {
      return `limit ${shortLimits(set)}${at === group ? "" : ` of ${at}`}`;
    }
  }
  return null;
}

/** What a latency is to be compared with. */
function besideOf(group, worst, { device, disk }) {
  const words = [];
  const alone = aloneOf(device, group);
  if (alone) {
    const times = worst / alone;
    words.push(`alone ${time(alone)}${times >= 2 ? `: ${Math.round(times)} times that` : ""}`);
  }
  const target = /target=(\d+)/.exec(settingOf(group, "io.latency", device, ""));
  if (target) {
    words.push(`target ${time(Number(target[1]) * 1000)}`);
  }
  const limit = limitOf(group, device);
  if (limit) {
    words.push(limit);
  }
  if (words.length === 0 && disk > 0) {
    words.push(`the disk itself ${time(disk)}`);
  }
  return { alone, text: words.join(", ") };
}

/** The longest p99 of each group in the last seconds, and the time at the disk of its requests. */
function worstOf(device) {
  const worst = new Map();
  for (const { p99s, disks } of pointsOf(device.device).slice(-SECONDS)) {
    for (const [group, p99] of p99s) {
      const known = worst.get(group);
      const disk = disks.get(group) || (known ? known.disk : 0);
      worst.set(group, { p99: Math.max(p99, known ? known.p99 : 0), disk });
    }
  }
  return [...worst].sort((a, b) => b[1].p99 - a[1].p99);
}

/** Shows the device; the level of the worst of them. */
export function drawLatencies({ device, groups }) {
  const all = worstOf({ device });
  const alarms = ({ promise }) =>
    promise ? promise.broken.filter((kind) => levelOfEvent(kind) === "alarm") : [];
  const broken = new Map(groups.map((live) => [live.group, alarms(live)]));
  const isBroken = (group) => (broken.get(group) || []).length > 0;
  const kept = new Map();
  for (const [group, { p99, disk }] of all.slice(0, ROWS_MAX)) {
    const made = rows.get(group) || newRow(group);
    const { alone, text } = besideOf(group, p99, { device, disk });
    const colour = colourOf(group);
    made.swatch.className = `swatch k${colour}`;
    made.fill.className = `fill k${colour}`;
    made.fill.style.width = `${part(p99)}%`;
    show(made.tick, Boolean(alone));
    made.tick.style.left = `${part(alone || SHORTEST)}%`;
    setText(made.value, time(p99));
    setLevel(made.value, isBroken(group) ? "alarm" : levelOfTime(p99));
    const kinds = (broken.get(group) || []).map((kind) => kind.replace("_", " "));
    setText(made.beside, [text, ...kinds].filter(Boolean).join(", "));
    kept.set(group, made);
  }
  rows = kept;
  arrange(byId("latency-rows"), [...kept.values()].map(({ row }) => row));
  show(byId("latency-more"), all.length > ROWS_MAX);
  setText(byId("latency-more"), `and ${all.length - ROWS_MAX} more`);
  show(byId("latency-none"), all.length === 0);
  if (groups.some(({ group }) => isBroken(group))) {
    return "alarm";
  }
  return all.length > 0 ? levelOfTime(all[0][1].p99) : "";
}
