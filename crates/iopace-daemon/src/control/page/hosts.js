// The hosts that share the volume of the device, and what each has of their common limits.

import { get } from "./api.js";
import { arrange, byId, el, setText, show } from "./dom.js";
import { duration, ops, rate } from "./format.js";

/** A look costs the daemon little: what it knows is in its memory. In ms. */
const EVERY = 2000;

let volumes = [];
let timer = null;
let rows = new Map();

/** Looks again and again, if the daemon has a part in a cluster; at the start and after breaks. */
export async function readHosts() {
  clearTimeout(timer);
  try {
    ({ volumes } = await get("/v1/cluster"));
  } catch {
    // The state of the connection is shown elsewhere; what is known stays.
  }
  if (volumes.length > 0) {
    timer = setTimeout(readHosts, EVERY);
  }
}

const amount = (name, value) => (name.endsWith("bps") ? rate(value) : `${ops(value * 1000)}/s`);

function make(host, limit) {
  const cells = Array.from({ length: 4 }, () => el("td", { class: "num" }));
  const state = el("td");
  const about = limit ? `${limit.group} ${limit.rate}` : "–";
  const row = el("tr", {}, el("th", { scope: "row" }, host), state, el("td", {}, about), ...cells);
  return { row, state, cells };
}

function stateOf({ is_there: isThere, has_slot: hasSlot }) {
  if (!isThere) {
    return "away";
  }
  return hasSlot ? "there" : "there, no place";
}

/** Shows the hosts of the device's volume, if it has one. */
export function drawHosts(device) {
  const volume = volumes.find((one) => one.device === device.device);
  show(byId("hosts"), volume !== undefined);
  if (!volume) {
    return;
  }
  setText(byId("hosts-volume"), volume.volume);
  const dark = volume.dark
    ? `The store is not reached for ${duration(volume.dark_for_ms * 1e6)}: limits are held by what was last granted, weights are as they were.`
    : "";
  setText(byId("hosts-dark"), dark);
  show(byId("hosts-dark"), dark !== "");
  const kept = new Map();
  for (const host of volume.hosts) {
    for (const limit of volume.limits.length > 0 ? volume.limits : [null]) {
      const key = JSON.stringify([volume.volume, host.host, limit?.group, limit?.rate]);
      const made = rows.get(key) || make(host.host, limit);
      const part = limit?.parts.find((one) => one.host === host.host);
      const values = part ? [limit.limit, part.granted, part.wanted, part.used] : [];
      setText(made.state, stateOf(host));
      made.cells.forEach((cell, i) => {
        setText(cell, values[i] === undefined ? "–" : amount(limit.rate, values[i]));
      });
      kept.set(key, made);
    }
  }
  rows = kept;
  arrange(byId("host-rows"), [...kept.values()].map(({ row }) => row));
}
