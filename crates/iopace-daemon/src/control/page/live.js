// The stream of reports: Server-Sent Events read through fetch, as EventSource cannot send a token.
// A broken stream is taken up again, later and later, from the last id that was seen.

import { headers, refusalOf } from "./api.js";

/** Waiting times before the tries to reconnect, in ms; the last one stays. */
const BACKOFF = [300, 600, 1200, 2500];

/** A stream that is silent for so long is broken; reports come every second. In ms. */
const SILENCE_MAX = 6000;

/** Splits a stream of bytes into events; returns what to call with each piece of text. */
export function parser(onEvent) {
  let rest = "";
  let event = { id: null, name: "message", data: [] };
  const line = (text) => {
    if (text === "") {
      if (event.data.length > 0) {
        onEvent(event.name, event.data.join("\n"), event.id);
      }
      event = { id: event.id, name: "message", data: [] };
      return;
    }
    const colon = text.indexOf(":");
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (field === "data") {
      event.data.push(value);
    } else if (field === "event") {
      event.name = value;
    } else if (field === "id") {
      event.id = value;
    }
  };
  return (text) => {
    if (!/[\r\n]/.test(text)) {
      rest += text; // A long line comes in many pieces: it is looked at once, when it is whole.
      return;
    }
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    lines.forEach(line);
  };
}

/**
 * Keeps a stream open. Calls `onOpen()` (before the first event of each connection; may be async),
 * `onEvent(name, object)`, and `onState(state, text)`: "connecting", "live", "lost", "denied".
 */
export class Live {
  constructor(path, { onOpen, onEvent, onState }) {
    Object.assign(this, { path, onOpen, onEvent, onState });
    this.lastId = null;
    this.tries = 0;
    this.abort = null;
    this.timer = null;
    this.silence = null;
    addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => !document.hidden && this.retryNow());
  }

  /** Connects; to be called once, and again after a new token. */
  async start() {
    clearTimeout(this.timer);
    this.timer = null;
    this.onState("connecting", "connecting");
    this.abort = new AbortController();
    let why = "the daemon ended the stream";
    try {
      await this.read();
    } catch (error) {
      if (error.status === 401 || error.status === 403) {
        this.onState("denied", error.text);
        return;
      }
      why = error.status ? error.text : "the daemon does not answer";
    } finally {
      clearTimeout(this.silence);
      this.abort.abort();
    }
    const wait = BACKOFF[Math.min(this.tries, BACKOFF.length - 1)];
    this.tries += 1;
    // A tenth more or less, so that many pages do not come back in the same moment.
    const jittered = wait * (0.9 + 0.2 * Math.random());
    this.onState("lost", `${why}; next try in ${(wait / 1000).toFixed(1)} s`);
    this.timer = setTimeout(() => this.start(), jittered);
  }

  /** Does not wait for the next try. */
  retryNow() {
    if (this.timer !== null) {
      this.start();
    }
  }

  async read() {
    const sent = { Accept: "text/event-stream", ...headers() };
    if (this.lastId !== null) {
      sent["Last-Event-ID"] = this.lastId;
    }
    this.listen();
    const options = { headers: sent, cache: "no-store", signal: this.abort.signal };
    const answer = await fetch(this.path, options);
    if (!answer.ok) {
      throw await refusalOf(answer);
    }
    // What is read first has timeouts of its own.
    clearTimeout(this.silence);
    await this.onOpen();
    this.listen();
    this.tries = 0;
    this.onState("live", "live");
    const feed = parser((name, data, id) => {
      this.lastId = id ?? this.lastId;
      this.onEvent(name, JSON.parse(data));
    });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) {
        return;
      }
      this.listen();
      feed(value);
    }
  }

  /** Gives up on a stream that has become silent: a peer that is gone may not say so. */
  listen() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.abort.abort(), SILENCE_MAX);
  }
}
