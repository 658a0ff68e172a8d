// Where each node is on the map: zones beside each other, in them racks, in them nodes. Lengths are in CSS pixels.

import { byName } from "./units.js";

const SIZES = [56, 48, 40, 34, 28, 24, 20, 17, 14, 12, 10, 8];
const ZONE_WIDTH = 225;
const GAP = 12;
const PADDING = 10;
const HEAD = 30;
const RACK_HEAD = 16;
const RACK_GAP = 8;
const RACK_WIDTH = 44;

/** The nodes by zone and rack, all in the order of their names. */
export function grouped(nodes, slots) {
  const zones = new Map();
  for (const slot of slots) {
    const zone = nodes.zoneOf(slot);
    const rack = nodes.rackOf(slot);
    if (!zones.has(zone)) zones.set(zone, new Map());
    const racks = zones.get(zone);
    if (!racks.has(rack)) racks.set(rack, []);
    racks.get(rack).push(slot);
  }
  const named = (map) => [...map].sort(([one], [other]) => byName(one, other));
  return named(zones).map(([zone, racks]) => ({
    zone,
    racks: named(racks).map(([rack, members]) => ({
      rack,
      slots: members.sort((one, other) => byName(nodes.name[one], nodes.name[other])),
    })),
  }));
}

/** The largest layout that is at most `height` high; the smallest if none is. */
export function layout(groups, width, height) {
  let found = null;
  for (const size of SIZES) {
    found = arranged(groups, width, size);
    if (found.height <= height) break;
  }
  return found;
}

function arranged(groups, width, size) {
  const gap = size >= 24 ? 4 : size >= 14 ? 3 : 2;
  const rows = Math.ceil(Math.max(1, groups.length) / Math.max(1, Math.floor((width + GAP) / (ZONE_WIDTH + GAP))));
  const columns = Math.max(1, Math.ceil(groups.length / rows));
  const zoneWidth = Math.floor((width - GAP * (columns - 1)) / columns);
  const place = { size, gap, cells: new Map(), order: [], zones: [], racks: [], width, height: 0 };
  const bottoms = new Array(columns).fill(0);
  for (const group of groups) {
    const column = bottoms.indexOf(Math.min(...bottoms));
    const x = column * (zoneWidth + GAP);
    const y = bottoms[column];
    const bottom = zoneOf(place, group, x, y, zoneWidth);
    place.zones.push({ zone: group.zone, x, y, width: zoneWidth, height: bottom - y, slots: group.racks.flatMap((each) => each.slots) });
    bottoms[column] = bottom + GAP;
  }
  place.height = Math.max(0, ...bottoms) - GAP;
  place.zones.forEach((zone) => place.order.push(...zone.slots));
  return place;
}

/** Places one zone, and returns where it ends. Its racks are as wide as each other, as many beside each other as make the zone lowest. */
function zoneOf(place, group, left, top, width) {
  const step = place.size + place.gap;
  const inner = width - 2 * PADDING;
  const labelled = group.racks.length > 1 || group.racks[0].rack !== "";
  const head = labelled ? RACK_HEAD : 0;
  const beside = labelled ? racksBeside(group.racks, inner, step, place.gap) : 1;
  const columns = Math.max(1, Math.floor((inner + place.gap - (beside - 1) * RACK_GAP) / beside / step));
  const blockWidth = Math.floor((inner - (beside - 1) * (RACK_GAP + place.gap)) / beside);
  let y = top + HEAD;
  for (let first = 0; first < group.racks.length; first += beside) {
    const row = group.racks.slice(first, first + beside);
    row.forEach(({ rack, slots }, index) => {
      const x = left + PADDING + index * (blockWidth + RACK_GAP + place.gap);
      if (labelled) place.racks.push({ rack, x, y, width: Math.max(blockWidth, 24) });
      slots.forEach((slot, at) => {
        place.cells.set(slot, { x: x + (at % columns) * step, y: y + head + Math.floor(at / columns) * step });
      });
    });
    y += head + rowsOf(row, columns) * step + (labelled ? 6 : 0);
  }
  return y + PADDING - place.gap - (labelled ? 4 : 0);
}

const rowsOf = (racks, columns) => Math.max(...racks.map(({ slots }) => Math.ceil(slots.length / columns)));

/** How many racks are beside each other. */
function racksBeside(racks, inner, step, gap) {
  let best = 1;
  let lowest = Infinity;
  for (let beside = 1; beside <= Math.min(racks.length, Math.floor(inner / RACK_WIDTH) || 1); beside += 1) {
    const columns = Math.floor((inner + gap - (beside - 1) * RACK_GAP) / beside / step);
    if (columns < 1) break;
    let height = 0;
    for (let first = 0; first < racks.length; first += beside) height += RACK_HEAD + 6 + rowsOf(racks.slice(first, first + beside), columns) * step;
    if (height < lowest) [best, lowest] = [beside, height];
  }
  return best;
}

/** The node at a point, or undefined. */
export function nodeAt(place, x, y) {
  for (const zone of place.zones) {
    if (x < zone.x || x > zone.x + zone.width || y < zone.y || y > zone.y + zone.height) continue;
    return zone.slots.find((slot) => {
      const cell = place.cells.get(slot);
      return x >= cell.x && x < cell.x + place.size + place.gap && y >= cell.y && y < cell.y + place.size + place.gap;
    });
  }
  return undefined;
}

/** The node that an arrow key goes to from this one. */
export function neighbour(place, slot, key) {
  const { order, cells } = place;
  const index = order.indexOf(slot);
  if (index < 0) return order[0];
  if (key === "ArrowLeft" || key === "ArrowRight") return order[index + (key === "ArrowLeft" ? -1 : 1)] ?? slot;
  if (key === "Home") return order[0];
  if (key === "End") return order[order.length - 1];
  if (key === "PageUp" || key === "PageDown") {
    const zones = place.zones.filter((zone) => zone.slots.length);
    const zone = zones.findIndex((each) => each.slots.includes(slot)) + (key === "PageUp" ? -1 : 1);
    return zones[Math.max(0, Math.min(zone, zones.length - 1))].slots[0];
  }
  const from = cells.get(slot);
  const sign = key === "ArrowUp" ? -1 : 1;
  let best = slot;
  let distance = Infinity;
  for (const other of order) {
    const cell = cells.get(other);
    const down = (cell.y - from.y) * sign;
    if (down <= 0) continue;
    const far = down * 4 + Math.abs(cell.x - from.x);
    if (far < distance) [best, distance] = [other, far];
  }
  return best;
}
