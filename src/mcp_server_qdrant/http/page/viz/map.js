// The card with the map: one panel of it at a time, what is pointed at, the points that stand out.

import { call } from "./api.js";
import { $, announce, button, download, fixed, h, key, percent, plural, there } from "./dom.js";
import { decode, signature } from "./mapdata.js";
import { Plot } from "./plot.js";
import { showTip, swatch, typicalTexts } from "./points.js";
import { hue, shape } from "./raster.js";
import { colour, go, named, state } from "./state.js";

const LAID = 1500; // ms between two questions for the layout by neighbours
const SHOWN = 6; // documents of a region
const [LISTED, NAMED] = [9, 4]; // regions; those by which an area is told
const LAYOUTS = { neighbours: "Neighbours", pca: "PCA", "3-D": "3-D" };

let on; // open(text), ask(words), visit(change), show(), drawn(), point(hit or null)
let plot = null;
let polling;
let seen = ""; // of the map, as the address has it

export function connect(callbacks) {
  on = callbacks;
  const named = (label, name, act) => button(label, act, { "aria-label": name, title: name });
  $("#zoom").replaceChildren(
    named("Lasso", "Draw a loop around points; with Shift at any time", () => lasso(!plot?.loop)),
    named("In view", "What is in view: its texts, and a search only here", () => plot && enclose(plot.seen)),
    named("−", "Zoom out", () => plot?.scaleBy(1 / 1.4)),
    named("+", "Zoom in", () => plot?.scaleBy(1.4)),
    named("⟲", "Show everything again", whole),
    named("Save", "Save the map as a picture", () => plot?.canvas.toBlob((picture) => download(picture, "map.png"))),
  );
  $("#region").addEventListener("keydown", ({ key: pressed }) => pressed === "Escape" && leave());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot?.restyle());
}

/** Lets the next drag over the map draw a loop around points. */
function lasso(on) {
  if (plot) plot.loop = on ? [] : null;
  $("#zoom button").setAttribute("aria-pressed", String(on));
  $("#canvas").classList.toggle("drawing", on);
}

/** An area was drawn, or chosen; null: nothing. */
function enclose(area) {
  lasso(false);
  if (area) on.visit({ area, region: "", only: "" });
}

export const busy = (is) => $("#map").setAttribute("aria-busy", String(is));

/** Draws the chosen collections, with the search on them if there is one. */
export async function load(search, signal) {
  busy(true);
  clearTimeout(polling);
  try {
    const collections = named();
    const answer = await call("map", { collections, search }, signal);
    state.map = { ...decode(answer), collections, search };
    if (!state.map.panels[state.panel]) state.panel = 0;
    showPanel();
    on.drawn();
    if (answer.coming) polling = setTimeout(awaitLayout, LAID, state.map);
  } finally {
    busy(false);
  }
}

/** Asks until the map has its layout by neighbours and all that was stored meanwhile, and draws that. */
async function awaitLayout(map) {
  if (map !== state.map) return;
  const others = () => String(map.collections) !== String(named()); // are chosen: drawn just now, or none
  const later = () => (polling = setTimeout(awaitLayout, LAID, map));
  if (others()) return later();
  const answer = await call("map", { collections: map.collections, points: false }).catch(() => null);
  if (map !== state.map) return;
  if (others() || !answer || (answer.coming && signature(answer) === signature(map))) return later();
  const laid = plot?.panel.neighbours;
  await load(map.search).catch(later);
  if (!laid && plot?.panel.neighbours) announce("The map has moved: what is alike now lies near.");
}

/** Places a search on the points that are drawn already; draws anew where those have changed. */
export async function place(search, signal) {
  if (!state.map) return load(search, signal);
  const answer = await call("map", { collections: state.map.collections, search, points: false }, signal);
  if (signature(answer) !== signature(state.map)) return load(search, signal);
  showPlaces({ ...answer, search });
}

/** Takes the search off the map. */
export function unplace() {
  if (state.map) showPlaces({ hits: [], queries: [], search: null });
}

const layout = () => (state.route.layout in LAYOUTS ? state.route.layout : "neighbours");

/** Whether another layout is shown than the one that is chosen, which is being made. */
const waits = () => layout() === "neighbours" && !plot.panel.neighbours && state.map.coming;

/** Draws a panel of the map that is there. */
function showPanel() {
  const { map } = state;
  const panel = map.panels[state.panel];
  const look = plot?.camera.transform;
  plot?.destroy();
  plot = null;
  $("#panel").replaceChildren(...map.panels.map(({ model }, place) => h("option", { value: place, selected: place === state.panel }, model)));
  $("#panel").hidden = map.panels.length < 2;
  $("#panel").onchange = ({ target }) => {
    state.panel = Number(target.value);
    showPanel();
  };
  $("#map").classList.toggle("nothing", !panel);
  if (!panel) return showNotes();
  const colours = panel.groups.map(({ collection }) => colour(collection));
  plot = new Plot($("#canvas"), panel, colours, {
    hover: (found, x, y) => {
      showTip($("#tip"), plot, found, x, y, colour);
      on.point(found?.hit ?? null);
    },
    pick: ({ region, hit, point }) => (region ? on.visit({ region: region.name, area: "", only: "" }) : on.open(hit ?? panel.about(point))),
    rests: () => {
      if (waits()) return; // what is seen of another layout is in no link
      seen = plot.camera.view;
      go({ ...state.route, at: seen }, { step: false });
    },
    sized: aim,
    enclose,
    step: (hit) => announce(`${hit.rank}: ${hit.title}, ${hit.collection}, relevance ${fixed(hit.relevance)}`),
  });
  if (look) plot.camera.transform = look;
  plot.hide(state.hidden);
  plot.arrange(layout());
  state.chosen = null;
  showAround();
  showPlaces(map);
}

/** To what the address names of the map, else to the hits. */
function aim() {
  if (state.route.at) lookAt(state.route.at);
  else if (state.map.hits.length) plot.approach();
}

/** Shows the part of the map that an address names, at once. */
function lookAt(view) {
  plot.stop();
  plot.camera.view = view;
  plot.draw(true);
}

/** Shows what the address has of the map. */
export function follow() {
  if (!plot) return;
  const { at = "" } = state.route;
  if (plot.camera.layout !== layout()) plot.arrange(layout());
  if (at !== seen) at ? lookAt(at) : whole();
  seen = at;
  showAround();
}

/** All around the points: layouts, legend, regions, what stands out, notes. */
function showAround() {
  showLayouts();
  showColours();
  showRegions();
  showChosen();
  showNotes();
}

/** The layout by neighbours has its place while it is made, and where it cannot be it has none. */
function showLayouts() {
  const { map } = state;
  const laid = Boolean(plot.panel.neighbours);
  const shown = laid || layout() !== "neighbours" ? layout() : "pca";
  const choice = ([value, label]) => {
    const made = value !== "neighbours" || laid;
    if (!made && !map.coming) return "";
    const input = h("input", { type: "radio", name: "layout", id: `layout-${value}`, value, checked: value === shown, disabled: !made, onchange: () => on.visit({ layout: value === "neighbours" ? "" : value, at: "" }) });
    return h("label", { title: made ? "" : "This layout is being made: near will mean alike" }, input, h("span", {}, made ? label : `${label}…`));
  };
  const focused = document.activeElement.name === "layout";
  $("#layout").replaceChildren(...Object.entries(LAYOUTS).map(choice));
  if (focused) $("#layout input:checked").focus();
}

/** What the points can be coloured by: pairs of a name in the address and words. */
function colourings() {
  const words = { tags: "tag", created_at: "age" };
  return [["", "Colour by collection"], ...plot.panel.facets.map(({ key: name }) => [name, `Colour by ${words[name] ?? name}`])];
}

/** The points' colours and their legend: by collection, or by what their payloads have in common. */
function showColours() {
  const { panel } = plot;
  const facet = panel.facets.find((one) => one.key === state.route.colour);
  const choices = colourings();
  $("#colouring").hidden = choices.length < 2;
  $("#colouring").onchange = ({ target }) => on.visit({ colour: target.value });
  $("#colouring").replaceChildren(...choices.map(([value, label]) => h("option", { value, selected: value === (facet?.key ?? "") }, label)));
  plot.paintBy(facet?.codes ?? panel.groupOf, facet ? facet.values.map((_, n) => hue(n)) : panel.groups.map(({ collection }) => colour(collection)));
  $("main").classList.toggle("recoloured", Boolean(facet));
  $("#legend").setAttribute("aria-label", facet ? `Colours of ${facet.key}` : "Collections shown");
  $("#legend").classList.toggle("values", Boolean(facet));
  const others = facet && h("li", {}, h("i", { class: "swatch none" }), "others");
  $("#legend").replaceChildren(...(facet ? [...facet.values.map((value, n) => h("li", {}, swatch(hue(n)), value)), others] : panel.groups.map(legend)));
  showPins();
}

/** A collection, whose points are taken off the map or put back. */
function legend({ collection, count, total }, place) {
  const { hidden } = state;
  const toggle = (event) => {
    if (!hidden.delete(collection)) hidden.add(collection);
    event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(collection)));
    plot.hide(hidden);
  };
  const number = h("span", { class: "count" }, drawnOf(count, total));
  return h("li", {}, button([swatch(colour(collection), shape(place)), collection, number], toggle, { class: "toggle", "aria-pressed": String(!hidden.has(collection)) }));
}

/** The largest regions as buttons: with the focus one stands out, pressed it opens. */
function showRegions() {
  const one = (region) =>
    button([region.name, h("span", { class: "count" }, ` ${region.size.toLocaleString("en")}`)], () => on.visit({ region: region.name, area: "", only: "" }), {
      class: "use",
      dir: "auto",
      id: `region-${region.name}`,
      onfocus: () => plot.light(plot.within(region), region),
      onblur: () => plot.light(state.chosen?.points ?? null, state.chosen?.region),
    });
  const { regions } = plot.panel;
  const focused = document.activeElement.id;
  $("#regions").replaceChildren(...regions.slice(0, LISTED).map((region) => h("li", {}, one(region))));
  $("#regions").hidden = !regions.length;
  if (focused.startsWith("region-")) document.getElementById(focused)?.focus();
}

/** The points that the address names, by a region or an area, once they are there. */
function showChosen() {
  const { region: name, area, only } = state.route;
  const { panel } = plot;
  const wanted = name || area || null;
  if (wanted && state.chosen?.wanted !== wanted) {
    const region = panel.regions.find((one) => one.name === name);
    if (!region && (!area || waits())) return; // not yet
    const points = region ? plot.within(region) : plot.enclosed(area);
    const words = region ? region.words : told(points);
    state.chosen = { wanted, region, points, words, ids: some(points).map((point) => panel.about(point).id) };
    announce(`Region ${words.join(", ")}, ${plural(points.length, "point")}`);
    if (only) on.show();
  } else if (!wanted) state.chosen = null;
  plot.light(state.chosen?.points ?? null, state.chosen?.region);
  showCard();
}

/** What stands out: its words, its documents, and what can be done with it. */
function showCard() {
  const card = $("#region");
  const before = document.activeElement;
  const wasHidden = card.hidden;
  card.hidden = !state.chosen;
  if (!state.chosen) return;
  const { points, words, ids, region } = state.chosen;
  const { only } = state.route;
  const like = words.slice(0, 5).join(" ");
  const limited = ids.length < points.length ? ` (in ${plural(ids.length, "point")} of them)` : "";
  const focused = card.contains(before) && before.id;
  card.replaceChildren(
    h("h3", { dir: "auto", tabIndex: -1 }, words.join(region ? ", " : " · ") || "What you chose"),
    h("p", { class: "hint" }, plural(points.length, "point")),
    typicalTexts(plot, points, SHOWN, on.open),
    h(
      "p",
      { class: "acts" },
      button(`Search only here${limited}`, () => on.visit({ only: only ? "" : "1" }), { id: "only", "aria-pressed": String(Boolean(only)) }),
      like && button("More like this", () => on.ask(like)),
      button("Close", leave),
    ),
  );
  if (focused) document.getElementById(focused)?.focus();
  if (!wasHidden) return;
  if (before.matches(":focus-visible")) $("h3", card).focus();
  card.scrollIntoView({ block: "nearest" });
}

function leave() {
  const { region } = state.route;
  on.visit({ region: "", area: "", only: "" });
  (document.getElementById(`region-${region}`) ?? plot.canvas).focus();
}

/** The regions that most of the points are of, by name. */
function told(points) {
  const { regions, regionOf } = plot.panel;
  const held = new Map();
  for (const point of points) if (regions[regionOf?.[point]]) held.set(regionOf[point], (held.get(regionOf[point]) ?? 0) + 1);
  return [...held].sort(([, one], [, other]) => other - one).slice(0, NAMED).map(([place]) => regions[place].name);
}

/** As many of them as a search can be kept to, evenly chosen. */
function some(points) {
  const step = Math.ceil(points.length / state.setup.most);
  return points.filter((_, n) => n % step === 0);
}

function showPlaces({ hits, queries, search, notes }) {
  const before = JSON.stringify(state.map.hits);
  Object.assign(state.map, { hits, queries, search, notes: notes ?? state.map.notes });
  if (!plot) return showNotes();
  showPins();
  if (before !== JSON.stringify(hits)) aim();
  showNotes();
}

/** The pins: of the colours of the collections, where those are the colours of the map. */
function showPins() {
  const own = ({ panel }) => panel === state.panel;
  const coloured = state.map.hits.filter(own).map((hit) => ({ ...hit, colour: state.route.colour ? plot.surface : colour(hit.collection) }));
  plot.show(coloured, state.map.queries.find(own) ?? null);
  mark();
}

/** How much of the differences between the points is seen, and what is not on the map. */
function showNotes() {
  const { map } = state;
  const said = map.notes.map((note) => h("p", { class: "hint" }, note));
  if (plot) said.unshift(plot.panel.neighbours && layout() === "neighbours" ? h("p", {}, `What is alike lies near; distances between groups mean little. ${size(plot.panel)}.`) : variance(plot.panel));
  else said.push(h("p", { class: "empty" }, map.notes.length ? "" : "There is nothing to draw."));
  $("#map-notes").replaceChildren(...said);
}

const drawnOf = (count, total) => `${count < total ? `${count.toLocaleString("en")} of ` : ""}${total.toLocaleString("en")}`;
const size = ({ count, groups }) => `${drawnOf(count, groups.reduce((sum, { total }) => sum + total, 0))} points`;

function variance(panel) {
  const { explained } = panel;
  const shares = explained.slice(0, layout() === "3-D" ? 3 : 2);
  const all = shares.reduce((sum, share) => sum + share, 0);
  const each = shares.map((share, axis) => `PC ${axis + 1} ${(share * 100).toFixed(1)} %`).join(", ");
  return h("p", {}, `${percent(all)} of the variance is seen: ${each}. ${size(panel)}.`);
}

/** The text that is open stands out. */
export const mark = () => plot?.mark(state.open && key(state.open));

/** Takes what is gone off the map. */
export const drop = () => plot?.drop();

export const whole = () => plot?.reset();

/** Marks a result, pointed at in the list. */
export const highlight = (result) => plot?.highlight(plot.hits.find((hit) => result && key(hit) === key(result)) ?? null);

/** What can be done with the map, for who types it. */
export function commands() {
  if (!plot) return [];
  const regions = plot.panel.regions.map((region) => ({ kind: "Go to region", name: region.name, act: () => goTo(region) }));
  const colours = colourings().map(([colour, name]) => ({ kind: "Map:", name, act: () => on.visit({ colour }) }));
  return [...regions, ...colours];
}

/** Every text that is drawn, by its points. */
export const texts = () => (plot ? plot.all(() => true).map((point) => plot.panel.about(point)).filter(there) : []);

function goTo(region) {
  on.visit({ region: region.name, area: "", only: "", layout: "" });
  const { neighbours } = plot.panel;
  plot.glide(plot.camera.around(plot.within(region).map((point) => ({ at: neighbours.slice(point * 3, point * 3 + 3) }))));
}
