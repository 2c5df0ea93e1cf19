// The top of the page: who is worst off and why, what would change it, and who waits how long. The
// words are those of `iopace explain`, which are asked for now and then, as they look at ten
// seconds.

import { get } from "./api.js";
import { byId, setText, show } from "./dom.js";
import { drawLatencies } from "./latencies.js";
import { setLevel } from "./levels.js";
import { buildRemedies, drawRemedies } from "./remedies.js";
import { store } from "./store.js";

/** How often it is asked, in ms. */
const ASK_MS = 5000;

/** Remedies that are shown, the mildest first. */
const REMEDIES_MAX = 3;

let told = { device: null, answer: null };
let isAsked = false;

/** Asks for the words about the device that is shown. */
async function ask() {
  const { device, isLive, isPaused } = store;
  if (!device || !isLive || isPaused || document.hidden || isAsked) {
    return;
  }
  isAsked = true;
  try {
    const { devices } = await get(`/v1/explain?device=${encodeURIComponent(device)}`);
    told = { device, answer: devices[0] || null };
    drawWords();
  } catch {
    // The state of the connection is shown elsewhere; what is known stays.
  } finally {
    isAsked = false;
  }
  if (store.device !== device) {
    ask();
  }
}

/** What would change it: of each cause in turn, each once. */
function remediesOf(subject) {
  const all = new Map();
  for (const remedy of subject ? subject.causes.flatMap(({ remedies }) => remedies) : []) {
    all.set(remedy.command, all.get(remedy.command) || remedy);
  }
  return [...all.values()].slice(0, REMEDIES_MAX);
}

function drawWords() {
  const isKnown = told.device === store.device && told.answer !== null;
  const { worst, explained } = isKnown ? told.answer : {};
  const subject = worst || (explained && explained.held_up ? explained : null);
  const titles = { worst: "Worst off", device: "The device", nobody: "iopace holds up no group" };
  const title = worst ? "worst" : subject ? "device" : "nobody";
  setText(byId("worst-title"), isKnown ? titles[title] : "One moment…");
  setText(byId("worst-group"), worst ? worst.group : "");
  setText(byId("worst-text"), isKnown ? (worst || explained).summary : "");
  drawRemedies(remediesOf(subject), store.device);
}

/** Begins to ask; `changed()` is called when a remedy was set or undone. */
export function buildDiagnosis(changed) {
  buildRemedies(() => {
    changed();
    ask();
  });
  setInterval(ask, ASK_MS);
  document.addEventListener("visibilitychange", ask);
}

/** Shows the device, and asks anew where another one is shown. */
export function drawDiagnosis(device) {
  const level = drawLatencies(device);
  setLevel(byId("diagnosis"), level);
  const words = { alarm: "alarm", warn: "slow" };
  show(byId("level"), level !== "");
  setText(byId("level"), words[level] || "");
  if (told.device !== store.device) {
    drawWords();
    ask();
  }
}
