// Pods and gangs that were searched for, from the path search.

import { el } from "./dom.js";

/** `open`: called with the namespace and name of a pod that somebody chooses. */
export function searchResult({ pods, groups }, open) {
  if (!pods.length && !groups.length) return el("p", {}, "No pod or gang that you may see has this in its name.");
  return [
    pods.length > 0 && el("section", {}, el("h3", {}, "Pods"), list(pods, open), pods.length >= 50 && el("p", { class: "quiet" }, "There may be more. Write more of the name.")),
    groups.map((group) => el("section", {}, el("h3", {}, `Gang ${group.name}`, el("small", {}, group.namespace)),
      el("p", {}, `${group.placed} of ${group.count} pods are on nodes${group.minCount ? `; the gang needs ${group.minCount}` : ""}.`),
      list(group.members, open))),
  ];
}

function list(pods, open) {
  return el("ul", { class: "pods" }, pods.map(({ namespace, name, node, place }) => el("li", {},
    el("button", { type: "button", class: "pod", on: { click: () => open(namespace, name) } },
      el("span", { class: "who" }, el("b", {}, name), el("small", {}, namespace)), el("span", { class: "when" }, node || place || "waits")))));
}
