// The page: connects the stream of events with the parts that show it.

import { Decisions } from "./decisions.js";
import { Details } from "./details.js";
import { byId, el, fill, say } from "./dom.js";
import { History, spark } from "./history.js";
import { NodeMap } from "./map.js";
import { Nodes } from "./nodes.js";
import { Plans } from "./plans.js";
import { Policies } from "./policies.js";
import { Queues } from "./queues.js";
import { Simulation } from "./simulation.js";
import { Server, Stream } from "./stream.js";
import { NodeTable } from "./table.js";
import { startTheme } from "./theme.js";
import { amount, duration, label, percent } from "./units.js";
import { Waiting } from "./waiting.js";

const server = new Server();
const nodes = new Nodes();
const details = new Details(server, nodes);
const map = new NodeMap(nodes, openNode);
const table = new NodeTable(nodes, openNode);
const waiting = new Waiting((namespace, name) => details.pod(namespace, name));
const decisions = new Decisions((namespace, name) => details.pod(namespace, name));
const policies = new Policies((key) => details.policy(key));
const plans = new Plans((name) => details.plan(name));
const queues = new Queues();
const simulation = new Simulation(server, { show: showSimulation, blend, open: (...pod) => details.pod(...pod) });
const history = new History();
let simulated = new Set();
let waitAfter = null;
let loaded = null;
let namespace = "";
let paused = false;
let growing = 0;
let figuresDue = 0;

const stream = new Stream(server, {
  hello() {
    decisions.reset();
    history.reset();
  },
  nodes(all) {
    const asBefore = loaded !== null && JSON.stringify(all) === JSON.stringify(loaded);
    loaded = all.simulated ? structuredClone(all) : null;
    nodes.take(all);
    chooseResources();
    if (all.simulated !== simulation.offered) simulation.offered = all.simulated;
    details.simulation = all.simulated ? simulation : null;
    byId("decisions-card").hidden = all.simulated;
    document.body.classList.toggle("simulated", all.simulated);
    drawFigures();  // before what stands below them, which would move under a finger
    map.arrange();
    table.update();
    if (asBefore) simulation.showAgain();
    else simulation.forget();
  },
  change(change) {
    const { slots, moved } = nodes.change(change);
    if (moved) map.arrange();
    else map.update(slots);
    table.update();
    details.nodesChanged(slots);
    figures();
  },
  queue(data) {
    waiting.take(data, namespace);
    figures();
  },
  decisions: (data) => decisions.take(data),
  policies: (data) => policies.take(data),
  queues: (data) => queues.take(data),
  plans: (data) => plans.take(data),
  history({ samples }) {
    history.take(samples);
    figures();
  },
  stale: ({ seconds, why }) => showStale(seconds, why),
}, showState);

function connect() {
  stream.open(namespace ? `stream?namespace=${encodeURIComponent(namespace)}` : "stream");
}

function openNode(slot) {
  if (slot < 0) return;
  map.select(slot);
  details.node(slot);
}

details.closed = () => map.select(-1);

// Before and after

/** `result`: of a simulation; null: the cluster as it was loaded. */
function showSimulation(result) {
  if (nodes.after) nodes.take(structuredClone(loaded));
  simulated = result === null ? new Set() : nodes.simulate(result.changes);
  waitAfter = result === null ? null : result.pending.length;
  map.arrange();
  if (result === null) {
    table.update();
    figures();
  }
}

/** How many pods wait, at this place between before and after. */
function waitingPods() {
  return waitAfter === null ? waiting.total : Math.round(waiting.total + (waitAfter - waiting.total) * nodes.blend);
}

function blend(share) {
  nodes.blend = share;
  map.update(simulated);
  table.update();
  figures();
}

// Figures above everything

function figures() {
  figuresDue ||= setTimeout(() => {
    figuresDue = 0;
    drawFigures();
  }, 150);
}

function drawFigures() {
  const pods = nodes.resources.indexOf("pods");
  const shares = nodes.resources.slice(0, 2).map((resource, index) => {
    const { used, all } = nodes.total(index);
    return [label(resource), percent(all ? used / all : NaN), `${amount(used, resource)} of ${amount(all, resource)} requested`, all ? used / all : 0];
  });
  const count = nodes.present;
  const placed = pods < 0 ? 0 : nodes.total(pods).used;
  const items = [
    ["Nodes", Math.round(count).toLocaleString("en"), `${nodes.zones.filter(Boolean).length || "no"} zones`],
    ["Pods on nodes", Math.round(placed).toLocaleString("en"), count ? `${(placed / count).toFixed(1)} a node` : ""],
    ["Pods that wait", waitingPods().toLocaleString("en"), nodes.blend > 0 ? `${waiting.total.toLocaleString("en")} before` : waiting.summary],
    ...shares,
  ];
  const box = byId("figures");
  if (box.children.length !== items.length) fill(box, items.map(() => el("div", {}, el("dt"), el("dd"), el("dd", { class: "quiet" }), el("dd", { class: "spark" }))));
  items.forEach(([title, value, more, share], index) => {
    const [term, number, note, line] = box.children[index].children;
    spark(line, title, history.column(index));
    say(term, title);
    say(number, value);
    say(note, more);
    box.children[index].classList.toggle("with-meter", share !== undefined);
    if (share !== undefined) box.children[index].style.setProperty("--share", `${Math.min(100, share * 100)}%`);
  });
}

// What people choose

function chooseResources() {
  const select = byId("resource");
  const chosen = select.value || nodes.resources[0];
  fill(select, nodes.resources.map((resource) => el("option", { value: resource, selected: resource === chosen }, label(resource))));
  setResource();
}

function setResource() {
  const index = Math.max(0, nodes.resources.indexOf(byId("resource").value));
  map.resource = table.resource = index;
  const name = nodes.resources[index] || "";
  fill(byId("legend"), [el("span", {}, `${label(name)} requested`), el("span", {}, "0%"), el("span", { class: "ramp", "aria-hidden": "true" }), el("span", {}, "100%")]);
}

byId("resource").addEventListener("change", () => {
  setResource();
  map.arrange();
  if (table.shown) table.draw();
});

byId("find").addEventListener("input", find);
byId("find").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const [first] = found() || [];
  if (first !== undefined && !table.shown) {
    byId("map").focus();
    map.goTo(first);
  }
});

function found() {
  const text = byId("find").value.trim().toLowerCase();
  if (!text) return null;
  const has = (each) => each.toLowerCase().includes(text);
  return new Set(nodes.slots().filter((slot) => has(nodes.name[slot]) || has(nodes.zoneOf(slot)) || has(nodes.rackOf(slot))));
}

function find() {
  map.show(found());
  table.show(found());
}

function showAs(asTable) {
  byId("map-view").hidden = asTable;
  byId("as-map").setAttribute("aria-pressed", String(!asTable));
  byId("as-table").setAttribute("aria-pressed", String(asTable));
  table.shown = asTable;
}

byId("as-map").addEventListener("click", () => showAs(false));
byId("as-table").addEventListener("click", () => showAs(true));

byId("namespace-form").addEventListener("submit", (event) => {
  event.preventDefault();
  details.namespace = namespace = byId("namespace").value.trim();
  connect();
});
byId("namespace").addEventListener("change", (event) => event.target.form.requestSubmit());

byId("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("search").value.trim();
  if (text) details.search(text);
});

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  say(byId("pause"), paused ? "Resume" : "Pause");
  if (paused) {
    stream.close();
    showState("paused", "");
  } else connect();
});

// The connection

/** Says that what is shown is so many seconds old, and why; 0 if it is current. Between two calls the age grows. */
function showStale(seconds, why) {
  clearInterval(growing);
  const box = byId("stale");
  box.hidden = seconds === 0;
  const state = byId("state");
  if (state.dataset.state === "live") {
    state.dataset.stale = String(seconds > 0);
    say(state.querySelector(".text"), seconds > 0 ? "Not current" : "Live");
  }
  if (seconds === 0) {
    say(byId("stale-why"), "");
    return;
  }
  const since = Date.now() - seconds * 1000;
  const draw = () => say(byId("stale-age"), `What you see is ${duration(Math.round((Date.now() - since) / 1000))} old.`);
  say(byId("stale-why"), `${why[0].toUpperCase()}${why.slice(1)}.`);
  draw();
  growing = setInterval(draw, 1000);
}

function showState(state, text) {
  if (state !== "waiting") showStale(0, "");
  else if (stream.heard) showStale(Math.max(1, (Date.now() - stream.heard) / 1000), "the page has no connection to the scheduler");
  const words = { live: "Live", waiting: `Reconnecting: ${text}`, refused: "Signed out", paused: "Paused" };
  byId("state").dataset.state = state;
  byId("state").dataset.stale = "false";
  say(byId("state").querySelector(".text"), words[state]);
  if (state === "refused") {
    say(byId("sign-in-why"), text);
    byId("sign-in").showModal();
  }
}

byId("sign-in").addEventListener("close", () => {
  server.token = byId("token").value.trim();
  byId("token").value = "";
  connect();
});

startTheme(() => map.recolour());
connect();
