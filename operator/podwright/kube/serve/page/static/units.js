// How amounts and times are written.

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const isBytes = (resource) =>
  resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");

/** An amount of a resource: milli-CPU, bytes or units. */
export function amount(value, resource) {
  if (resource === "cpu") return trim(value / 1000);
  if (!isBytes(resource)) return value.toLocaleString("en");
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < BYTES.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${trim(value)} ${BYTES[unit]}`;
}

/** At most three digits that matter. */
function trim(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return Number(value.toFixed(digits)).toLocaleString("en");
}

/** A share from 0 to 1, or more, as percent; "–" without one. */
export const percent = (share) => (Number.isFinite(share) ? `${Math.round(share * 100)}%` : "–");

/** Seconds, in the largest unit that they fill. */
export function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, name] of units) if (seconds >= size) return `${Math.floor(seconds / size)} ${name}`;
  return `${seconds < 10 && seconds % 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
}

/** A time of the day. `at`: seconds since the epoch. */
export const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

const LABELS = { cpu: "CPU", memory: "Memory", pods: "Pods", "ephemeral-storage": "Storage" };
/** What a resource is called. */
export const label = (resource) => LABELS[resource] || resource;

/** Compares names so that node-2 comes before node-10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;
