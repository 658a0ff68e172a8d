// What the scheduler knows of one pod, from /debug/explain.

import { el } from "./dom.js";
import { clock, duration } from "./units.js";

const PLACES = {
  active: "Waits for its turn",
  backoff: "Is tried again after a pause",
  unschedulable: "No node fits; waits for an event",
  gated: "Is held back",
  "in-flight": "Is being tried or bound",
};

/** `found`: the answer; null if the scheduler knows nothing of the pod. */
export function explanation(found, namespace, name) {
  const command = el("pre", {}, el("code", {}, `kubectl podwright explain pod/${name} -n ${namespace}`));
  const more = el("section", {}, el("h3", {}, "More"), el("p", {}, "The least change that would help, proved, or the scores of a placed pod:"), command);
  if (!found) return [el("p", {}, "The scheduler remembers no decision about this pod. If it is on a node, its annotation podwright.dev/decision tells why."), more];
  return [queue(found), (found.decisions || []).map(decision), more];
}

function queue(found) {
  const place = found.queue;
  const policy = found.policy && `${found.policy.name}, generation ${found.policy.generation}`;
  if (!place) return policy && facts([["Policy", policy]]);
  return el("section", {}, el("h3", {}, PLACES[place.place] || place.place), facts([
    ["Waits for", duration(place.waited)],
    ["Attempts", place.attempts],
    ["Pods before it", place.ahead],
    ["Tried within", place.triedIn === undefined ? undefined : duration(place.triedIn)],
    ["Rejected by", (place.rejectedBy || []).join(", ")],
    ["Held back by", place.gatedBy],
    ["Lane", place.costly && "costly pods"],
    ["Policy", policy],
    ["Nominated to", found.nominated],
    ["Refused", found.refusal],
  ]));
}

function decision(each) {
  const titles = { Placed: `Placed on ${each.node}`, Rejected: "Rejected", Failed: "Failed" };
  const policy = each.policy ? `${each.policy.name}, generation ${each.policy.generation}` : "";
  return el("section", { class: `decided ${String(each.outcome).toLowerCase()}` },
    el("h3", {}, titles[each.outcome] || each.outcome, each.at && el("small", {}, clock(each.at))),
    each.message && el("p", {}, each.message),
    facts([
      ["Score", each.score],
      ["Runner-up", each.runnerUp && `${each.runnerUp} with ${each.runnerUpScore}`],
      ["Nodes", each.evaluated && [`${each.evaluated} evaluated`, each.feasible && `${each.feasible} fit`].filter(Boolean).join(", ")],
      ["Nominated to", each.nominated],
      ["Victims", each.victimCount && [...(each.victims || []), `${each.victimCount} in all`].join(", ")],
      ["Policy", policy],
    ]),
    each.reasons && reasons(each.reasons),
    each.rejected && facts(Object.entries(each.rejected).map(([plugin, count]) => [plugin, `rejected ${count}`])));
}

function reasons(byPlugin) {
  const rows = Object.entries(byPlugin).flatMap(([plugin, texts]) =>
    Object.entries(texts).sort((one, other) => other[1] - one[1]).map(([text, count]) => [plugin, text, count]));
  return el("table", { class: "small" }, el("caption", { class: "hidden" }, "Why nodes were rejected"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "number" }, "Nodes"), el("th", { scope: "col" }, "Reason"))),
    el("tbody", {}, rows.map(([plugin, text, count]) => el("tr", {}, el("td", { class: "number" }, count), el("td", {}, text, el("small", {}, plugin))))));
}

/** Facts with names; those without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return known.length > 0 && el("dl", { class: "facts" }, known.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
