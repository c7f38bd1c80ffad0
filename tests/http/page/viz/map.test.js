// The map without a browser: coordinates, pixels, names, pins.

import assert from "node:assert/strict";
import test from "node:test";
import { Camera } from "../../../../src/mcp_server_qdrant/http/page/viz/camera.js";
import { find } from "../../../../src/mcp_server_qdrant/http/page/viz/input.js";
import { placed } from "../../../../src/mcp_server_qdrant/http/page/viz/layers.js";
import { decode, signature } from "../../../../src/mcp_server_qdrant/http/page/viz/mapdata.js";
import { apart, covered, numbered } from "../../../../src/mcp_server_qdrant/http/page/viz/pins.js";
import { drawnOf, size } from "../../../../src/mcp_server_qdrant/http/page/viz/points.js";
import { channels, hue, HUES, shape, stamp } from "../../../../src/mcp_server_qdrant/http/page/viz/raster.js";

const base64 = (values) => Buffer.from(values.buffer).toString("base64");
const near = (one, other) => one.forEach((value, n) => assert.ok(Math.abs(value - other[n]) < 0.01, `${one} is not ${other}`));

/** Three points of two collections, as the server sends them. */
const given = () => ({
  panels: [
    {
      model: "m",
      explained: [0.3, 0.2, 0.1],
      groups: [{ collection: "a", count: 2, total: 5 }, { collection: "b", count: 1, total: 1 }],
      scale: 0.5,
      xyz: base64(Int16Array.of(-2, -1, 0, 2, 1, 0, 0, 0, 2)),
      ids: ["1", "2", "3"],
      documents: ["d", "d", "e"],
      titles: ["One", "Two", "Three"],
      facets: [{ key: "tags", values: ["x"], codes: base64(Uint8Array.of(0, 1, 1)) }],
      neighbours: { scale: 2, xy: base64(Int16Array.of(1, 2, 3, 4, 5, 6)), region_of: base64(Uint8Array.of(0, 255, 0)), regions: [{ name: "r", words: ["r"], size: 2, point: 0 }] },
    },
  ],
});

function camera(layout = "pca") {
  const made = new Camera(decode(given()).panels[0]);
  Object.assign(made, { width: 600, height: 400 });
  made.arrange(layout);
  return made;
}

test("the server's map is decoded to coordinates and what is known of each point", () => {
  const [panel] = decode(given()).panels;

  assert.deepEqual([...panel.xyz], [-1, -0.5, 0, 1, 0.5, 0, 0, 0, 1]);
  assert.deepEqual([...panel.neighbours], [2, 4, 0, 6, 8, 0, 10, 12, 0]);
  assert.deepEqual([...panel.groupOf, ...panel.regionOf, ...panel.facets[0].codes], [0, 0, 1, 0, 255, 0, 0, 1, 1]);
  assert.deepEqual(panel.about(2), { id: "3", document: "e", collection: "b", title: "Three", snippet: "" });
  assert.deepEqual([size(panel), drawnOf(2, 5)], ["3 of 6 points", "2 of 5"]);
  const without = given();
  without.panels[0].neighbours = null;
  const [plain] = decode(without).panels;
  assert.deepEqual([plain.regions, plain.neighbours], [[], null]);
  assert.equal(signature(given()), signature(without));
  without.panels[0].groups[0].count = 1;
  assert.notEqual(signature(given()), signature(without));
});

test("coordinates become pixels: upwards and to the right, whole inside the map, by layout and turn", () => {
  const flat = camera();
  near(flat.screen([0, 0, 0.5]), [300, 200, 0]);
  const [left, top] = flat.screen([-1, 0.5, 0]);
  assert.ok(left > 0 && left < 300 && top > 0 && top < 200);
  const place = new Float32Array(9);
  flat.project(place, (n, strength) => n * strength);
  for (const n of [0, 1, 2]) near(place.subarray(n * 3, n * 3 + 2), flat.screen([...flat.panel.xyz.subarray(n * 3, n * 3 + 3)]));
  assert.deepEqual([place[2], place[5], place[8]], [0, 1, 2]);

  const by = camera("neighbours");
  near(by.screen(by.spot({ at: [0, 0, 0], neighbours: [6, 8] })), [300, 200, 0]);
  assert.deepEqual(by.spot({ at: [1, 2, 3], neighbours: null }), [1, 2, 3]);
  const solid = camera("3-D");
  const before = solid.screen([1, 0.5, 0]);
  assert.notDeepEqual(before, flat.screen([1, 0.5, 0]));
  solid.turn = { ...solid.turn, yaw: solid.turn.yaw + 1 };
  assert.notDeepEqual(solid.screen([1, 0.5, 0]), before);
  solid.reset();
  assert.deepEqual(solid.screen([1, 0.5, 0]), before);
});

test("a zoom keeps its place, has bounds, and goes to results that lie together", () => {
  const one = camera();
  one.transform = one.zoomed(2, [100, 50]);
  assert.deepEqual(one.transform, { k: 2, x: -100, y: -50 });
  assert.deepEqual([one.zoomed(1e6, [0, 0]).k, one.zoomed(1e-6, [0, 0]).k], [40, 0.6]);
  const marks = [[0.1, 0.1, 0], [0.2, 0.2, 0]].map((at) => ({ at }));
  one.transform = one.around(marks);
  for (const { at } of marks) {
    const [x, y] = one.screen(at);
    assert.ok(x > 80 && x < 520 && y > 80 && y < 320);
  }
  assert.equal(one.around([{ at: [-1, -0.5, 0] }, { at: [1, 0.5, 0] }]).k, 1);
});

test("a link holds zoom, middle and turn, for a map of another size too", () => {
  const one = camera("3-D");
  assert.equal(one.view, "");
  one.transform = one.zoomed(2, [150, 100]);
  one.turn = { yaw: 1.5, pitch: 0.25, depth: 1 };
  assert.equal(one.view, "2.00 0.375 0.375 1.50 0.25");
  const other = camera("3-D");
  Object.assign(other, { width: 300, height: 200, view: one.view });
  assert.equal(other.view, one.view);
  for (const wrong of ["", "x y", "0 0 0"]) other.view = wrong;
  assert.equal(other.view, one.view);
});

test("points are drawn in their colours, hidden and outside ones not, and from the ninth on in another shape", () => {
  const [wide, high] = [40, 20];
  const pixels = new Uint32Array(wide * high);
  const place = Float32Array.of(10, 10, 256, 30, 10, 0, 500, 10, 256);
  stamp(pixels, wide, high, { ratio: 1, place, codes: [1, 0, 0], colours: ["#ff0000", "#0000ff"], radius: 3, paper: "#ffffff" });
  assert.equal(pixels[10 * wide + 10], 0xffff0000); // blue, in the order of the bytes of an image
  assert.equal(pixels.filter((one) => one !== 0xffffffff).length, pixels.filter((_, n) => n % wide < 20).filter((one) => one !== 0xffffffff).length);
  assert.equal(new Set(HUES).size, 8);
  assert.deepEqual([hue(9), shape(7), shape(8), shape(32)], [HUES[1], 0, 1, 0]);
  assert.deepEqual(channels("#0a1410"), [10, 20, 16]);
  const square = new Uint32Array(wide * high);
  stamp(square, wide, high, { ratio: 1, place: place.subarray(0, 3), codes: [9], colours: HUES, radius: 3, paper: "#ffffff" });
  assert.notEqual(square.filter((one) => one !== 0xffffffff).length, pixels.filter((one) => one !== 0xffffffff).length);
});

test("names overlap neither each other nor the pins, nor do they leave the map", () => {
  const plot = { width: 400, height: 200, widths: {}, context: { measureText: (text) => ({ width: text.length * 6 }) }, place: Float32Array.of(100, 50, 1, 110, 52, 1, 300, 150, 1, 396, 100, 1, 200, 100, 0) };
  const names = ["first", "under it", "free", "at the edge", "hidden"].map((name, point) => ({ name, point, words: [name] }));

  assert.deepEqual(placed(plot, names, []).map(({ text }) => text), ["first", "free"]);
  assert.deepEqual(placed(plot, names, [[90, 40, 110, 60]]).map(({ text }) => text), ["free"]);
});

test("pins move apart from each other and from the query, and the first five have numbers", () => {
  const pins = [[100, 100], [100, 100], [104, 101]];
  apart(pins, [100, 100]);
  const all = [...pins, [100, 100]];
  for (const [n, [x, y]] of all.entries()) for (const [a, b] of all.slice(n + 1)) assert.ok(Math.hypot(x - a, y - b) > 8);
  assert.deepEqual([1, 5, 6].map((rank) => numbered({ rank })), [true, true, false]);
  assert.deepEqual(covered({ shown: [{ rank: 9, pin: [50, 60] }], star: null }), [[45, 55, 55, 65]]);
});

test("a pin is found before a name, and a name before a point; nothing is found further off", () => {
  const region = { words: ["r"] };
  const hit = { pin: [50, 50], collection: "a" };
  const plot = { hits: [hit], hidden: new Set(), labels: [{ region, box: [40, 40, 90, 60] }], place: Float32Array.of(55, 52, 1, 150, 150, 1, 200, 200, 0), panel: { count: 3 } };

  assert.deepEqual(find(plot, 52, 52), { hit, x: 50, y: 50 });
  assert.deepEqual(find(plot, 85, 45), { region, x: 85, y: 45 });
  assert.deepEqual(find(plot, 152, 151), { point: 1, x: 150, y: 150 });
  assert.equal(find(plot, 200, 200), null); // hidden
  assert.equal(find(plot, 300, 20), null);
  plot.hidden.add("a");
  assert.deepEqual(find(plot, 52, 52), { region, x: 52, y: 52 });
});
