// What is set for groups, as it was last read: others may change it too.

import { get } from "./api.js";

let settings = new Map();

/** Reads what is set for all groups. */
export async function fetchSettings() {
  const all = await get("/v1/groups");
  settings = new Map(all.map(({ group, files }) => [group, files]));
}

/** The groups that there are. */
export const knownGroups = () => [...settings.keys()];

/** What a file says for a device: its line, else the line `default`, else the built-in value. */
export function settingOf(group, file, device, builtIn) {
  const { [file]: text } = settings.get(group) || {};
  let value = builtIn;
  for (const line of (text || "").split("\n")) {
    const at = line.indexOf(" ");
    const [name, rest] = [line.slice(0, at), line.slice(at + 1)];
    if (name === device) {
      return rest;
    }
    if (name === "default") {
      value = rest;
    }
  }
  return value;
}
