// The RebalancePolicies: the last plan of each, its moves, and the racks before and after.

import { byId, el, fill } from "./dom.js";
import { facts } from "./explanation.js";
import { clock, label } from "./units.js";

const STATES = {
  Plan: ["plain", "It plans, and moves nothing"],
  Enforce: ["good", "The moves of its plans are made"],
  Stop: ["plain", "It does not plan"],
  Closed: ["plain", "None of its windows is open"],
  Conflict: ["bad", "It moves nothing, because an older policy has other goals"],
};
const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
const badge = (state) => el("span", { class: `badge ${STATES[state][0]}`, title: STATES[state][1] }, state);

export class Plans {
  #open;

  /** `open`: called with the name of a policy that somebody chooses. */
  constructor(open) {
    this.#open = open;
  }

  take({ list, unlisted }) {
    const heads = ["Policy", "Mode", "Planned at", "Moves", "Moved", "Gain", "Gained"];
    const head = el("tr", {}, heads.map((text, index) => el("th", { scope: "col", class: index > 2 ? "number" : null }, text)));
    const chosen = document.activeElement?.dataset.plan;
    byId("plans-card").hidden = list.length === 0;
    fill(byId("plans"), [
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of plans" },
        el("table", {}, el("caption", { class: "hidden" }, "RebalancePolicies and their last plans"), el("thead", {}, head), el("tbody", {}, list.map((policy) => this.#row(policy))))),
      unlisted > 0 && el("p", { class: "quiet" }, `${unlisted.toLocaleString("en")} more, which are not listed here.`),
    ]);
    if (chosen) byId("plans").querySelector(`[data-plan="${CSS.escape(chosen)}"]`)?.focus();
  }

  #row([name, state, time, gain, gained, moves, moved, ended]) {
    const button = el("button", { type: "button", class: "link", "data-plan": name, on: { click: () => this.#open(name) } }, name);
    const numbers = time === null ? ["–", "–", "–", "–"] : [moves, moved, gain, gained].map((value) => value.toLocaleString("en"));
    return el("tr", {}, el("th", { scope: "row" }, button), el("td", {}, badge(state), ended && el("small", { class: "message" }, "ended early")),
      el("td", {}, time === null ? "not yet" : clock(time)), numbers.map((text) => el("td", { class: "number" }, text)));
  }
}

/** The last plan of a policy, from the path plan. `picture`: gets the picture for a resource, as an element. */
export function planDetails(found, picture) {
  const about = el("section", {}, el("h3", {}, badge(found.state)), el("p", {}, STATES[found.state][1]), found.conflict && el("p", { class: "problem" }, found.conflict), facts([
    ["Goals", found.goals.map(([goal, weight]) => (weight === 1 ? goal : `${goal} (weight ${weight})`)).join(", ")],
    ["Planned at", found.time ? clock(found.time) : "not yet"],
    ["Moves", found.time && `${found.moves.toLocaleString("en")}, of which ${found.moved.toLocaleString("en")} made`],
    ["Gain", found.time && `${found.gain.toLocaleString("en")}, of which ${found.gained.toLocaleString("en")} reached`],
    ["Last hour", `${found.recent.toLocaleString("en")} of ${count(found.maxMoves, "move")}`],
    ["Ended", found.ended],
    ["Hash", found.hash],
    ["Exact search", found.exact],
  ]));
  if (!found.time) return [about];
  return [
    about,
    found.resources.length > 0 && beforeAfter(found.resources, picture),
    el("section", {}, el("h3", {}, "Moves"), found.moves === 0 && el("p", {}, "No pod would move."), found.steps.map(step),
      found.unlisted > 0 && el("p", { class: "quiet" }, `${count(found.unlisted, "more move")}, which are not listed here or whose pods you may not see.`)),
    found.heldBack?.length > 0 && el("section", {}, el("h3", {}, "Held back"), el("ul", { class: "plain-list" }, found.heldBack.map((text) => el("li", {}, text)))),
  ];
}

function beforeAfter(resources, picture) {
  const box = el("div", { class: "scroll picture", tabindex: "0", role: "region", "aria-label": "Racks before and after" });
  let chosen;
  const show = async (resource) => {
    chosen = resource;
    const found = await picture(resource);
    if (chosen === resource) fill(box, [found || el("p", { class: "problem" }, "There is no picture now.")]);
  };
  show(resources[0]);
  const options = resources.map((resource) => el("option", { value: resource }, label(resource)));
  return el("section", {}, el("h3", {}, "Before and after"),
    resources.length > 1 && el("label", { class: "choice" }, "Resource ", el("select", { on: { change: (event) => show(event.target.value) } }, options)), box);
}

function step({ why, gain, count: all, moves }) {
  return el("div", { class: "step" }, el("p", {}, el("b", {}, why), el("small", {}, ` gain ${gain.toLocaleString("en")} for ${count(all, "move")}`)),
    el("table", {}, el("caption", { class: "hidden" }, why),
      el("tbody", {}, moves.map(([namespace, name, source, target, state]) => el("tr", {}, el("th", { scope: "row" }, name, el("small", {}, ` ${namespace}`)), el("td", {}, source), el("td", {}, `→ ${target}`, state && el("small", {}, state)))))));
}
