// Numbers with their units, as the command line prints them.

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const tenths = (value) => (Math.floor(value * 10) / 10).toFixed(1);

/** A size, as `1.9 GiB`. */
export function size(bytes) {
  let at = 0;
  let value = bytes;
  while (value >= 1024 && at < SIZES.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.floor(value) : tenths(value)} ${SIZES[at]}`;
}

/** A size at a mark of an axis, where what is rounded off would be missed: `1.25 MiB`. */
export function exactSize(bytes) {
  const at = bytes < 1024 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** at).toFixed(3))} ${SIZES[at]}`;
}

/** The same per second. */
export const exactRate = (bytes) => `${exactSize(bytes)}/s`;

/** A length of time at a mark of an axis: `1 ms`. */
export const exactTime = (nanos) => time(nanos).replace(/\.0(?= )/, "");

/** Bytes per second, as `1.9 MiB/s`. */
export const rate = (bytes) => `${size(bytes)}/s`;

/** A length of time in three digits or so, as `4.2 ms`. */
export function time(nanos) {
  if (nanos === 0) {
    return "0";
  }
  for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) {
    if (nanos >= unit) {
      const value = nanos / unit;
      return `${value >= 100 ? Math.floor(value) : tenths(value)} ${name}`;
    }
  }
  return `${Math.round(nanos)} ns`;
}

/** A long time, as `3 h 12 min`. */
export function duration(nanos) {
  const seconds = Math.floor(nanos / 1e9);
  const [days, hours] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24];
  const minutes = Math.floor(seconds / 60) % 60;
  if (days > 0) {
    return `${days} d ${hours} h`;
  }
  if (hours > 0) {
    return `${hours} h ${minutes} min`;
  }
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

/** Requests per second from thousandths, as `12.3` or `1 234`. */
export function ops(milli) {
  const value = milli / 1000;
  if (value > 0 && value < 10) {
    return value.toFixed(1);
  }
  return count(Math.round(value));
}

/** A whole number with thin spaces between thousands. */
export const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** A share in whole percent; what is there at all is not 0 %. */
export function percent(part, whole) {
  if (whole === 0 || part === 0) {
    return "0 %";
  }
  const value = (100 * part) / whole;
  return value < 1 ? "<1 %" : `${Math.round(value)} %`;
}

/** The time of day, as `14:03:07`. */
export function clock(milliseconds) {
  const at = new Date(milliseconds);
  const two = (value) => String(value).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** A line of `key=value` with sizes as short as they can be written: `rbps=10485760` is `10M`. */
export function shortLimits(text) {
  return text.replace(/\b([rw]?bps(?:-burst)?)=(\d+)/g, (_, key, digits) => {
    let value = Number(digits);
    let at = 0;
    while (value > 0 && value % 1024 === 0 && at < 4) {
      value /= 1024;
      at += 1;
    }
    return `${key}=${value}${["", "k", "M", "G", "T"][at]}`;
  });
}
