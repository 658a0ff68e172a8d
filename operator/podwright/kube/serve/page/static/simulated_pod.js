// Why a pod of a simulated cluster waits, or why it is on its node, and what would help: from the path pod.

import { el } from "./dom.js";
import { facts } from "./explanation.js";

const TITLES = { Placed: "Is on its node", Pending: "No node fits", Fits: "A node fits now", Gated: "Is held back", Ignored: "No policy serves its scheduler name", WaitsForPolicy: "Waits for a policy", Terminating: "Is being deleted", Finished: "Has ended" };

export function simulatedPod(found) {
  const { causes = [], rejections = [], nearest = [], changes = [], notes = [], scores, policy, preemption } = found;
  return [
    el("section", {}, el("h3", {}, TITLES[found.state] || found.state), causes.map((cause) => el("p", {}, cause.text)), notes.map((note) => el("p", { class: "quiet" }, note)),
      facts([["Node", found.node], ["Policy", policy && `${policy.name}${policy.generation ? `, generation ${policy.generation}` : ""}`], ["Nodes that fit", found.feasible], ["Preemption", preemption && (preemption.node ? `${preemption.node}: ${(preemption.victims || []).map((each) => each.pod).join(", ")}` : preemption.message)]])),
    changes.length > 0 && el("section", {}, el("h3", {}, "What would help"), el("ul", { class: "plain-list" }, changes.map((change) => el("li", {}, el("b", {}, change.of === "pod" ? "Pod: " : "Cluster: "), change.text, change.node && el("small", {}, ` → ${change.node}`))))),
    rejections.length > 0 && el("section", {}, el("h3", {}, "Why nodes are rejected"), table(["Nodes", "Reason"], rejections.map((each) => [each.nodes, [each.reason, el("small", {}, each.plugin)]]))),
    nearest.length > 0 && el("section", {}, el("h3", {}, "The nearest nodes"), facts(nearest.map((miss) => [miss.node, miss.problems.map((problem) => problem.detail || problem.reason).join("; ")]))),
    scores && el("section", {}, el("h3", {}, "Scores"), facts([["Total", scores.total], ["Runner-up", scores.runnerUp && `${scores.runnerUp} with ${scores.runnerUpTotal}`], ["What made the difference", (scores.decisive || []).join(", ")]]),
      table(["Chosen", "Plugin"], (scores.plugins || []).map((each) => [each.chosen, [`${each.plugin} × ${each.weight}`, each.runnerUp !== undefined && el("small", {}, `runner-up ${each.runnerUp}`)]]))),
  ];
}

function table(heads, rows) {
  return el("table", { class: "small" }, el("caption", { class: "hidden" }, heads.join(" and ")), el("thead", {}, el("tr", {}, heads.map((text, index) => el("th", { scope: "col", class: index ? null : "number" }, text)))),
    el("tbody", {}, rows.map(([number, text]) => el("tr", {}, el("td", { class: "number" }, number), el("td", {}, text)))));
}
