// Requests to the daemon. The token comes with the address (#token=...) or from the form, is kept
// for this tab only, and is taken out of the address bar at once.

const KEY = "iopace-token";

/** Longest time that an answer may take, in ms. */
const TIMEOUT = 10000;

/** A request that the daemon refused, or that did not reach it (status 0). */
export class Refusal extends Error {
  constructor(status, error, hint) {
    super(error);
    this.status = status;
    this.hint = hint;
  }

  /** What was wrong, and what would be right. */
  get text() {
    return this.hint ? `${this.message} (${this.hint})` : this.message;
  }
}

/** Takes the token out of the address; `true` if there is one. */
export function takeToken() {
  const words = new URLSearchParams(location.hash.slice(1));
  const token = words.get("token");
  if (token) {
    setToken(token);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return Boolean(token);
}

/** Keeps a token for this tab. */
export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

/** Whether there is a token to try. */
export const hasToken = () => sessionStorage.getItem(KEY) !== null;

/** What every request carries. */
export function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** What an answer other than a good one says. */
export async function refusalOf(answer) {
  let problem = {};
  try {
    problem = await answer.json();
  } catch {
    // Not the daemon's words: the status has to do.
  }
  const error = problem.error || `the daemon answered ${answer.status} ${answer.statusText}`;
  return new Refusal(answer.status, error, problem.hint || "");
}

async function request(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: AbortSignal.timeout(TIMEOUT) });
  } catch {
    throw new Refusal(0, "the daemon does not answer", "what you entered is kept; try again");
  }
  if (!answer.ok) {
    throw await refusalOf(answer);
  }
  return answer.json();
}

/** Asks for something. */
export const get = (path) => request(path, { headers: headers() });

/** Has something changed; the answer is the state then. */
export function post(path, body) {
  const sent = { "Content-Type": "application/json", ...headers() };
  return request(path, { method: "POST", headers: sent, body: JSON.stringify(body) });
}

/** The path of a device's resource. */
export const devicePath = (name, rest = "") => `/v1/devices/${encodeURIComponent(name)}${rest}`;

/** The value of a group's file on a device as it holds now. */
export async function effective(group, file, device) {
  const query = new URLSearchParams({ group, file, device });
  const [report] = await get(`/v1/groups/files?${query}`);
  const found = report.effective.find((entry) => entry.device === device);
  return { value: found ? found.value : "", summary: report.summary };
}

/** Writes lines to a file of a group. */
export const writeFile = (group, file, text) => post("/v1/groups/files", { group, file, text });
