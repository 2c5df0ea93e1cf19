// The page: takes the stream of reports and has each part shown, at most once a second.

import { get, hasToken, setToken, takeToken } from "./api.js";
import { recolour } from "./charts.js";
import { buildDevice, readChoices, readDevice, watchDevice } from "./device.js";
import { giveColours } from "./colours.js";
import { copyButton } from "./command.js";
import { buildDiagnosis, drawDiagnosis } from "./diagnosis.js";
import { arrange, byId, el, setAttribute, setText, show } from "./dom.js";
import { drawEvents, readEvents, takeEvent } from "./events.js";
import { duration } from "./format.js";
import { buildGroups, drawGroups, readSettings } from "./groups.js";
import { drawHosts, readHosts } from "./hosts.js";
import { buildKeys, buildTheme } from "./keys.js";
import { Live } from "./live.js";
import { buildPanels, drawPanels } from "./panels.js";
import { SPAN_S, forgetDaemon, mark, pointsOf, shown, store, takeReports } from "./store.js";
import { drawTasks } from "./tasks.js";
import { buildTiles, drawEmpty, drawTiles } from "./tiles.js";
import { buildWhy, drawWhy } from "./why.js";

let isDue = false;
/** The device that was drawn last. */
let drawn = null;
const tabs = new Map();

function draw() {
  isDue = false;
  const device = shown();
  if (!device || document.hidden) {
    return;
  }
  if (store.device !== device.device) {
    pick(device.device);
    return;
  }
  if (store.isPaused && drawn === store.device) {
    return;
  }
  drawn = store.device;
  drawTabs();
  const { version, pid } = store.status || {};
  const about = version ? `iopace ${version}, process ${pid}, ` : "";
  setText(byId("daemon"), `${about}up ${duration(store.latest.uptime_ns)}`);
  giveColours(pointsOf(device.device));
  drawDiagnosis(device);
  drawTiles(device);
  drawEmpty(pointsOf(device.device), device);
  drawPanels(device);
  drawWhy(device);
  drawGroups(device);
  drawHosts(device);
  drawTasks(device);
  watchDevice(device);
}

/** Draws with the next frame; many reasons to draw come to one drawing. */
function due() {
  if (!isDue) {
    isDue = true;
    requestAnimationFrame(draw);
  }
}

function drawTabs() {
  const names = store.latest.devices.map(({ device }) => device);
  const nodes = store.latest.devices.map(({ device, scheduler }, i) => {
    if (!tabs.has(device)) {
      const scheduler = el("small");
      const choose = () => pick(device);
      const button = el("button", { type: "button", onclick: choose }, device, scheduler);
      tabs.set(device, { button, scheduler });
    }
    const tab = tabs.get(device);
    setText(tab.scheduler, scheduler);
    setAttribute(tab.button, "title", i < 9 ? `key ${i + 1}` : null);
    setAttribute(tab.button, "aria-pressed", String(device === store.device));
    return tab.button;
  });
  [...tabs.keys()].filter((name) => !names.includes(name)).forEach((name) => tabs.delete(name));
  arrange(byId("devices"), nodes);
}

/** Shows a device. */
function pick(device) {
  store.device = device;
  readDevice(true).catch(() => {});
  due();
}

function setState(state, text) {
  const node = byId("state");
  setAttribute(node, "data-state", state);
  setText(byId("state-text"), text);
  show(byId("retry"), state === "lost");
  document.body.classList.toggle("stale", state === "lost");
  store.isLive = state === "live";
  // The words stay the same from try to try, or a screen reader would say them each time.
  if (state === "lost" || state === "live") {
    show(byId("lost"), state === "lost");
  }
  if (state === "denied") {
    setText(byId("login-message"), text);
    if (!byId("login").open) {
      byId("login").showModal();
    }
  }
}

/** Reads what the stream does not say; at the start and after each break. */
async function onOpen() {
  const before = store.latest;
  const status = await get("/v1/status");
  // The past is worth having, but nothing depends on it: without it the charts begin now.
  const past = get(`/v1/live?history=${SPAN_S}`);
  const history = await past.catch(async () => [await get("/v1/live")]);
  const isOther = store.status !== null && store.status.pid !== status.pid;
  store.status = status;
  if (isOther || (before && history.length > 0 && history.at(-1).uptime_ns < before.uptime_ns)) {
    forgetDaemon();
    history.at(-1)?.devices.forEach(({ device }) => mark(device, "daemon restarted"));
  }
  takeReports(history);
  await readChoices();
  const device = shown();
  if (device) {
    store.device = device.device;
    await readDevice();
  }
  await Promise.all([readSettings(), readEvents(), readHosts()]);
  show(byId("main"), true);
  show(byId("loading"), false);
  due();
}

function onEvent(name, data) {
  if (name === "live") {
    takeReports([data]);
    due();
  } else if (name === "event" && takeEvent(data)) {
    drawEvents();
    if (data.device === store.device) {
      readDevice().catch(() => {}); // The next event, or the next connection, has it read again.
    }
  }
}

function setPaused(isPaused) {
  store.isPaused = isPaused;
  setAttribute(byId("pause"), "aria-pressed", String(isPaused));
  setText(byId("pause"), isPaused ? "Resume" : "Pause");
  document.body.classList.toggle("paused", isPaused);
  due();
}

function build(live) {
  buildTiles();
  buildPanels();
  buildWhy();
  buildDiagnosis(() => {
    readDevice().catch(() => {});
    readSettings();
  });
  buildGroups();
  buildDevice();
  buildTheme(recolour);
  buildKeys((index) => {
    const device = store.latest && store.latest.devices[index];
    if (device) {
      pick(device.device);
    }
  });
  byId("pause").addEventListener("click", () => setPaused(!store.isPaused));
  byId("retry").addEventListener("click", () => live.retryNow());
  byId("empty-copy").append(copyButton(byId("empty-code")));
  byId("login").addEventListener("cancel", (event) => event.preventDefault());
  byId("login-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(byId("token").value.trim());
    byId("token").value = "";
    byId("login").close();
    live.start();
  });
  document.addEventListener("visibilitychange", due);
}

takeToken();
addEventListener("hashchange", () => takeToken() && location.reload());
const live = new Live("/v1/live/stream", { onOpen, onEvent, onState: setState });
build(live);
if (hasToken()) {
  live.start();
} else {
  setState("denied", "a token is needed");
}
