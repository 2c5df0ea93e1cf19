// The table of groups, as a tree or by what they do. Rows are made when they are first shown, at
// most so many as are asked for, and kept as long as they are listed.

import { arrange, byId, setText, show } from "./dom.js";
import { GroupRow } from "./rows.js";
import { fetchSettings, knownGroups } from "./settings.js";
import { dirtyOf, parentOf, shown, store } from "./store.js";

/** Rows before "show all", and after it. */
const ROWS_MAX = 40;
const ROWS_MAX_ALL = 1000;

/** Rows beyond this count are brought up to date only while they can be seen. */
const ALWAYS_FRESH = 60;

/** How often the settings of all groups are read, in ms: others may change them too. */
const SETTINGS_MS = 10000;

const view = { sort: "group", filter: "", isAll: false };
let rows = new Map();
let rowsOf = null;
/** Dirty memory by group, with what is below it. */
let dirty = new Map();
let sight = null;
/** The rows that can be seen. */
const inSight = new Set();

const flow = (part) => (live) => live.activity[part].bytes_s;

/** What the columns sort by. */
const KEYS = {
  read: flow("read"),
  write: flow("write"),
  buffered: flow("buffered"),
  ops: ({ activity }) => activity.read.ops_milli_s + activity.write.ops_milli_s,
  p99: ({ activity }) => activity.latency.p99_ns,
  slots: (live) => live.slots_taken_count,
  dirty: ({ group }) => dirty.get(group) || 0,
  weight: (live) => live.weight,
};

const bytesOf = (live) => live.activity.read.bytes_s + live.activity.write.bytes_s;

/** Reads what is set for the groups. */
export async function readSettings() {
  try {
    await fetchSettings();
    if (shown()) {
      drawGroups(shown());
    }
  } catch {
    // The state of the connection is shown elsewhere; what is known stays.
  }
}

/** Sets up filter, sorting and "show all". */
export function buildGroups() {
  const redraw = () => shown() && drawGroups(shown());
  sight = new IntersectionObserver((entries) => {
    let isOther = false;
    for (const { target, isIntersecting } of entries) {
      isOther ||= isIntersecting && !inSight.has(target);
      inSight[isIntersecting ? "add" : "delete"](target);
    }
    if (isOther && rows.size > ALWAYS_FRESH) {
      redraw();
    }
  });
  byId("group-filter").addEventListener("input", (event) => {
    view.filter = event.target.value.trim().toLowerCase();
    redraw();
  });
  byId("group-all").addEventListener("click", () => {
    view.isAll = !view.isAll;
    redraw();
  });
  for (const button of document.querySelectorAll("#groups button[data-sort]")) {
    button.addEventListener("click", () => {
      view.sort = button.dataset.sort;
      for (const other of document.querySelectorAll("#groups button[data-sort]")) {
        const isIt = other === button;
        const order = other.dataset.sort === "group" ? "ascending" : "descending";
        other.closest("th").setAttribute("aria-sort", isIt ? order : "none");
      }
      redraw();
    });
  }
  setInterval(() => !document.hidden && store.isLive && readSettings(), SETTINGS_MS);
}

/** Paths in order of the tree: by name, what is below a group right after it. */
function byPath(a, b) {
  const [left, right] = [a.split("/"), b.split("/")];
  for (let i = 0; i < Math.min(left.length, right.length); i += 1) {
    if (left[i] !== right[i]) {
      return left[i] < right[i] ? -1 : 1;
    }
  }
  return left.length - right.length;
}

/** The groups to show: of many, those that do most, with those above them. */
function choose(lives) {
  const all = [...new Set([...lives.keys(), ...knownGroups()])];
  const matching = all.filter((group) => group.toLowerCase().includes(view.filter));
  const max = view.isAll ? ROWS_MAX_ALL : ROWS_MAX;
  const key = KEYS[view.sort] || bytesOf;
  const value = (group) => (lives.has(group) ? key(lives.get(group)) : -1);
  const values = new Map(matching.map((group) => [group, value(group)]));
  const most = (a, b) => values.get(b) - values.get(a) || byPath(a, b);
  const chosen = matching.length > max ? matching.sort(most).slice(0, max) : matching;
  const edited = [...rows.values()].filter((row) => row.isEdited()).map(({ group }) => group);
  const listed = new Set([...chosen, ...edited]);
  if (view.sort !== "group") {
    return { groups: [...listed].sort(most), total: matching.length };
  }
  for (const group of [...listed]) {
    for (let above = parentOf(group); above !== null; above = parentOf(above)) {
      listed.add(above);
    }
  }
  return { groups: [...listed].sort(byPath), total: matching.length };
}

function newRow(group, device) {
  const row = new GroupRow(group, device, readSettings);
  sight.observe(row.row);
  return row;
}

/** Shows the groups of the device. */
export function drawGroups(device) {
  if (rowsOf !== device.device) {
    sight.disconnect();
    inSight.clear();
    rows = new Map();
    rowsOf = device.device;
  }
  const lives = new Map(device.groups.map((live) => [live.group, live]));
  dirty = dirtyOf(device);
  const { groups, total } = choose(lives);
  const kept = new Map();
  for (const group of groups) {
    const row = rows.get(group) || newRow(group, device.device);
    kept.set(group, row);
    if (groups.length > ALWAYS_FRESH && row.isKnown && !inSight.has(row.row)) {
      continue;
    }
    row.isKnown = true;
    row.update(lives.get(group) || null, {
      isFlat: view.sort !== "group",
      dirty: dirty.get(group) || 0,
      hasCache: device.pace !== null,
    });
  }
  for (const [group, { row }] of rows) {
    if (!kept.has(group)) {
      sight.unobserve(row);
      inSight.delete(row);
    }
  }
  rows = kept;
  arrange(byId("group-rows"), [...kept.values()].flatMap(({ nodes }) => nodes));
  const hidden = Math.max(0, total - Math.min(total, groups.length));
  show(byId("group-all"), view.isAll || hidden > 0);
  setText(byId("group-all"), view.isAll ? "Show the busiest only" : `Show all ${total}`);
  const left = device.groups_left_out_count;
  const out = left > 0 ? `; the daemon leaves out ${left} more that do little` : "";
  const what = view.filter ? `${total} match` : `${total} groups`;
  setText(byId("group-count"), `${what}${hidden > 0 ? `, ${groups.length} shown` : ""}${out}`);
  show(byId("group-none"), groups.length === 0);
}
