// Who is worst off on the device, and what would change it: the words of `iopace explain`. They are
// asked for now and then, as they look at ten seconds.

import { get } from "./api.js";
import { byId, setText, show } from "./dom.js";
import { store } from "./store.js";

/** How often it is asked, in ms. */
const ASK_MS = 5000;

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
    draw();
  } catch {
    // The state of the connection is shown elsewhere; what is known stays.
  } finally {
    isAsked = false;
  }
  if (store.device !== device) {
    ask();
  }
}

function draw() {
  const { worst } = told.answer || {};
  const isKnown = told.device === store.device && told.answer !== null;
  show(byId("worst"), isKnown);
  if (!isKnown) {
    return;
  }
  show(byId("worst-group"), Boolean(worst));
  setText(byId("worst-group"), worst ? worst.group : "");
  setText(byId("worst-text"), worst ? worst.summary : "Nobody: iopace holds up no group.");
  const remedy = worst && worst.causes.flatMap(({ remedies }) => remedies)[0];
  show(byId("worst-remedy"), Boolean(remedy));
  setText(byId("worst-command"), remedy ? remedy.command : "");
  setText(byId("worst-effect"), remedy ? `${remedy.effect}; price: ${remedy.price}` : "");
}

/** Begins to ask. */
export function buildWorst() {
  setInterval(ask, ASK_MS);
  document.addEventListener("visibilitychange", ask);
}

/** Shows what is known of the device, and asks anew where another one is shown. */
export function drawWorst() {
  if (told.device !== store.device) {
    draw();
    ask();
  }
}
