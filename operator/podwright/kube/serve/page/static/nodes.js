// The nodes of the cluster in columns, by slot. Slots without a node have an empty name.

export const CORDONED = 1;
export const NOT_READY = 2;
export const TAINTED = 4;
export const TERMINATING = 8;
export const ADDED = 16;
export const GONE = 32;

const STATES = [[NOT_READY, "not ready"], [CORDONED, "cordoned"], [TAINTED, "tainted"], [TERMINATING, "terminating"], [ADDED, "added by the simulation"], [GONE, "gone after the simulation"]];
const FIELDS = ["name", "zone", "rack", "shape", "flags"];

export class Nodes {
  resources = [];
  zones = [];
  racks = [];
  shapes = [];
  name = [];
  zone = [];
  rack = [];
  shape = [];
  flags = [];
  requested = [];
  /** By slot, what pods request after a simulation, in columns as `requested`; null without one. */
  after = null;
  /** From 0, before the simulation, to 1, after it. */
  blend = 0;

  /** Takes all nodes. */
  take(all) {
    Object.assign(this, all);
    this.after = null;
    this.blend = 0;
  }

  /** Takes what has changed. Returns the slots, and whether nodes came, went or moved. */
  change(change) {
    this.zones.push(...change.zones);
    this.racks.push(...change.racks);
    this.shapes.push(...change.shapes);
    const slots = new Set(change.slot);
    let moved = false;
    for (const [slot, ...row] of change.rows) {
      moved ||= this.name[slot] !== row[0] || this.zone[slot] !== row[1] || this.rack[slot] !== row[2];
      for (let slots = this.name.length; slots <= slot; slots += 1) this.#grow();
      FIELDS.forEach((field, index) => (this[field][slot] = row[index]));
      if (!row[0]) for (const column of this.requested) column[slot] = 0;
      slots.add(slot);
    }
    change.slot.forEach((slot, index) => {
      this.requested.forEach((column, resource) => (column[slot] = change.requested[resource][index]));
    });
    return { slots, moved };
  }

  /** Takes what a simulation changes: `changes` of its result. Returns the slots. The nodes that it adds are in the place of those that they are like. */
  simulate(changes) {
    const slots = new Map(this.slots().map((slot) => [this.name[slot], slot]));
    for (const { node, podsBefore, allocatable } of changes) {
      if (podsBefore !== null || slots.has(node)) continue;
      const model = slots.get(node.replace(/-added-\d+$/, ""));
      const slot = this.name.length;
      this.#grow();
      this.name[slot] = node;
      for (const field of ["zone", "rack"]) this[field][slot] = model === undefined ? -1 : this[field][model];
      this.shape[slot] = this.shapes.push(this.resources.map((resource) => allocatable[resource] || 0)) - 1;
      this.flags[slot] = ADDED;
      slots.set(node, slot);
    }
    this.after = this.requested.map((column) => [...column]);
    for (const { node, podsAfter, requestedAfter } of changes) {
      const slot = slots.get(node);
      if (podsAfter === null) this.flags[slot] |= GONE;
      this.resources.forEach((resource, index) => {
        this.after[index][slot] = resource === "pods" ? podsAfter || 0 : requestedAfter[resource] || 0;
      });
    }
    return new Set(changes.map(({ node }) => slots.get(node)));
  }

  /** How much of a node there is, from 0 to 1: less than 1 only for nodes that a simulation adds or removes. */
  presence(slot) {
    const added = this.flags[slot] & ADDED ? this.blend : 1;
    return this.flags[slot] & GONE ? added * (1 - this.blend) : added;
  }

  #grow() {
    for (const field of FIELDS) this[field].push(field === "name" ? "" : 0);
    for (const column of this.requested) column.push(0);
  }

  /** The slots that have a node. */
  slots() {
    const found = [];
    for (let slot = 0; slot < this.name.length; slot += 1) if (this.name[slot]) found.push(slot);
    return found;
  }

  /** How many nodes there are. During a simulation, those that come and go count in part. */
  get present() {
    return this.slots().reduce((sum, slot) => sum + this.presence(slot), 0);
  }

  allocatable(slot, resource) {
    return this.shapes[this.shape[slot]]?.[resource] || 0;
  }

  /** What is requested of a resource, which is named by its index. */
  used(slot, resource) {
    const before = this.requested[resource][slot] || 0;
    return this.after ? before + (this.after[resource][slot] - before) * this.blend : before;
  }

  /** The share that is requested; NaN if the node does not offer the resource. */
  share(slot, resource) {
    const all = this.allocatable(slot, resource);
    return all > 0 ? this.used(slot, resource) / all : NaN;
  }

  /** What is requested and what there is, of all nodes. */
  total(resource) {
    let used = 0;
    let all = 0;
    for (const slot of this.slots()) {
      used += this.used(slot, resource);
      all += this.allocatable(slot, resource) * this.presence(slot);
    }
    return { used, all };
  }

  zoneOf(slot) {
    return this.zones[this.zone[slot]] || "";
  }

  rackOf(slot) {
    return this.racks[this.rack[slot]] || "";
  }

  /** What is special about a node, in words. */
  states(slot) {
    return STATES.filter(([flag]) => this.flags[slot] & flag).map(([, text]) => text);
  }
}
