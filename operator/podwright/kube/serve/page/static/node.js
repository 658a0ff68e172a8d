// What fills one node, from the path node.

import { el } from "./dom.js";
import { facts } from "./explanation.js";
import { meter } from "./table.js";
import { amount, label, percent } from "./units.js";

/** `open`: called with the namespace and name of a pod that somebody chooses. */
export function nodeDetails(found, open) {
  return [
    el("section", {}, el("h3", {}, "What is requested"), el("table", { class: "small" }, el("caption", { class: "hidden" }, "Resources of the node"),
      el("thead", {}, el("tr", {}, ["Resource", "Share", "Requested"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, found.resources.map(({ name, requested, allocatable }) => el("tr", {},
        el("th", { scope: "row" }, label(name)),
        el("td", { class: "meter-cell" }, allocatable ? [meter(requested / allocatable), percent(requested / allocatable)] : "–"),
        el("td", {}, `${amount(requested, name)} of ${amount(allocatable, name)}`)))))),
    el("section", {}, el("h3", {}, "State"), facts([
      ["Node", found.states.join(", ") || "ready"],
    ]), list("Taints", found.taints), list("Labels", found.labels)),
    el("section", {}, el("h3", {}, `${found.podCount} ${found.podCount === 1 ? "pod" : "pods"}`),
      el("ul", { class: "pods" }, found.pods.map((pod) => el("li", {}, el("button", { type: "button", class: "pod", on: { click: () => open(pod.namespace, pod.name) } },
        el("span", { class: "who" }, el("b", {}, pod.name), el("small", {}, [pod.namespace, pod.assumed && "being bound", pod.terminating && "terminating"].filter(Boolean).join(" · "))),
        el("span", { class: "when" }, `${amount(pod.cpu, "cpu")} CPU`, el("small", {}, amount(pod.memory, "memory"))))))),
      found.unlisted > 0 && el("p", { class: "quiet" }, `${found.unlisted} more ${found.unlisted === 1 ? "pod" : "pods"}, which are not listed here or which you may not see.`)),
  ];
}

/** A list of texts that is opened on demand; nothing if it is empty. */
function list(title, texts) {
  return texts.length > 0 && el("details", { open: texts.length <= 5 }, el("summary", {}, `${title} (${texts.length})`), el("ul", { class: "texts" }, texts.map((text) => el("li", {}, el("code", {}, text)))));
}
