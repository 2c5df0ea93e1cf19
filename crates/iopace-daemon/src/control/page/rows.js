// One row of the table of groups, made once and kept while the group is listed.

import { effective, writeFile } from "./api.js";
import { colourOf } from "./colours.js";
import { pasteable } from "./command.js";
import { el, setAttribute, setText, show } from "./dom.js";
import { Edit } from "./edit.js";
import { ops, rate, shortLimits, size, time } from "./format.js";
import { levelOfTime, setLevel } from "./levels.js";
import { settingOf } from "./settings.js";
import { mark } from "./store.js";
import { WhyBar } from "./why.js";

/** Columns of the table. */
export const COLUMNS = 12;

/** The place of the latency among the cells with numbers. */
const P99 = 4;

const LIMIT_HINT =
  "rbps wbps bps: bytes per second (k, M and G count in 1024); riops wiops iops: requests per " +
  "second; each with -burst; burst-length=3s. As in: rbps=10M wiops=120. Empty: no limit.";

const WEIGHT_HINT = "Share of what is left among the groups beside it: 1 to 10000, usually 100.";

const CLASS_HINT =
  "RT goes before all others, IDLE when nobody else has anything to do. It counts with the " +
  "scheduler fair.";

const NOTHING = { bytes_s: 0, ops_milli_s: 0 };

/** How long the message that something was set stays, in ms. */
const NOTE_MS = 6000;

/** A group as a row of cells, and a row for messages below it. */
export class GroupRow {
  constructor(group, device, onSet) {
    Object.assign(this, { group, device, onSet, timer: null });
    this.name = el("th", { scope: "row", class: "tree" });
    this.name.style.setProperty("--depth", group === "/" ? 0 : group.split("/").length - 1);
    this.name.title = group;
    this.label = el("span", {}, group === "/" ? "/" : group.slice(group.lastIndexOf("/") + 1));
    this.swatch = el("span", { class: "swatch", "aria-hidden": "true" });
    this.name.append(this.swatch, this.label);
    this.edits = {
      class: this.edit("io.ioprio_class", "class", ["RT", "BE", "IDLE"], CLASS_HINT),
      weight: this.edit("io.weight", "weight", "text", WEIGHT_HINT, 5),
      limit: this.edit("io.max", "limits", "text", LIMIT_HINT, 18, "none"),
    };
    this.cells = ["read", "write", "buffered", "ops", "p99", "slots", "dirty"].map(() =>
      el("td", { class: "num" }),
    );
    this.bar = new WhyBar(true);
    // The root has no siblings to share with.
    const isRoot = group === "/";
    const isEditable = (what) => !isRoot || what === "limit";
    const edits = Object.entries(this.edits).map(([what, { node }]) =>
      el("td", {}, isEditable(what) ? node : null),
    );
    this.row = el("tr", {}, this.name, ...edits, ...this.cells, el("td", {}, this.bar.node));
    this.message = el("td", { colspan: COLUMNS });
    this.note = el("tr", { class: "message", hidden: true }, this.message);
    this.nodes = [this.row, this.note];
  }

  edit(file, what, kind, hint, width, placeholder) {
    const label = `${what} of ${this.group} on ${this.device}`;
    const note = (text, isError, isWarning) => this.say(file, text, isError, isWarning);
    const submit = (text) => this.write(file, what, text);
    return new Edit({ label, kind, width, placeholder, submit, note, hint });
  }

  /** Sets a file for this device and reads back what holds then. */
  async write(file, what, text) {
    const { group, device } = this;
    // Keys that are not named keep their value: the line goes first, so that what is written holds.
    const isLimit = file === "io.max";
    const lines = isLimit || text === "" ? [`${device} default`] : [];
    let warnings = [];
    try {
      const written = [...lines, ...(text ? [`${device} ${text}`] : [])].join("\n");
      ({ warnings } = await writeFile(group, file, written));
    } catch (error) {
      error.message = error.message.replace(/, line \d+:/, ":"); // There is one line to see here.
      throw error;
    }
    const { value } = await effective(group, file, device);
    const now = isLimit ? limitText(value) : value;
    mark(device, `${group} ${what} ${now || "none"}`);
    this.onSet();
    const own = warnings.filter((warning) => warning.device === device);
    return { now, warning: own.map(inWords).join("; ") };
  }

  /** Shows a message below the row: an error or a warning stays until it is dealt with. */
  say(file, text, isError = false, isWarning = false) {
    clearTimeout(this.timer);
    const input = Object.values(this.edits).find(({ input }) => input === document.activeElement);
    const node = el("span", { role: isError ? "alert" : "status" });
    node.textContent = text === null ? "" : `${isError ? "" : `${file}: `}${text}`;
    this.message.replaceChildren(node);
    this.note.classList.toggle("error", isError);
    this.note.classList.toggle("warning", isWarning);
    show(this.note, text !== null);
    if (input) {
      node.id = `${input.id}-note`;
      setAttribute(input.input, "aria-describedby", text === null ? null : node.id);
    }
    if (text !== null && !isError && !isWarning && text.startsWith("set;")) {
      this.timer = setTimeout(() => show(this.note, false), NOTE_MS);
    }
  }

  /** Whether an edit stands in it that is not set. */
  isEdited() {
    return Object.values(this.edits).some((edit) => edit.isEdited());
  }

  /**
   * Shows what the group does; `live` is null while it does nothing, `dirty` the dirty memory of the
   * group and of those below it, `hasCache` whether writes are buffered.
   */
  update(live, { isFlat, dirty, hasCache }) {
    const nothing = { read: NOTHING, write: NOTHING, buffered: NOTHING };
    const { read, write, buffered, latency } = live ? live.activity : nothing;
    setText(this.label, isFlat || this.group === "/" ? this.group : this.leaf());
    this.row.classList.toggle("flat", isFlat);
    this.row.classList.toggle("idle", !live);
    const { class: ofClass, weight, limit } = this.edits;
    const set = (file, builtIn) => settingOf(this.group, file, this.device, builtIn);
    this.swatch.className = `swatch k${colourOf(this.group)}`;
    ofClass.hold(live ? live.class.toUpperCase() : set("io.ioprio_class", "BE"));
    weight.hold(live ? String(live.weight) : set("io.weight", "100"));
    limit.hold(limitText(set("io.max", "max")));
    const isAny = latency && latency.count > 0;
    const p99 = isAny ? time(latency.p99_ns) : "–";
    setLevel(this.cells[P99], isAny ? levelOfTime(latency.p99_ns) : "");
    const texts = [
      rate(read.bytes_s),
      rate(write.bytes_s),
      hasCache ? rate(buffered.bytes_s) : "–",
      ops(read.ops_milli_s + write.ops_milli_s),
      p99,
      String(live ? live.slots_taken_count : 0),
      size(dirty),
    ];
    texts.forEach((text, i) => setText(this.cells[i], text));
    this.cells.forEach((cell, i) => cell.classList.toggle("zero", /^(0|–)( |$)/.test(texts[i])));
    show(this.bar.node, live !== null);
    if (live) {
      this.bar.update(live.activity);
    }
  }

  leaf() {
    return this.group.slice(this.group.lastIndexOf("/") + 1);
  }
}

/** What will not do what it says, and the command line that changes it. */
export const inWords = ({ text, command }) =>
  command ? `${text} (${pasteable(command)})` : text;

/** A value of io.max as it is shown: nothing where nothing is limited. */
const limitText = (value) => (value === "max" ? "" : shortLimits(value));
