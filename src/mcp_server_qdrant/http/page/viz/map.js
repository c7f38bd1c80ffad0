// The card with the map: one panel of it at a time, its layouts, colours and regions.

import { call } from "./api.js";
import { $, announce, button, fixed, h, key, percent, plural, redraw } from "./dom.js";
import { decode, signature } from "./mapdata.js";
import { Plot } from "./plot.js";
import { collectionKeys, showTip, size, swatch, typicalTexts } from "./points.js";
import { hue } from "./raster.js";
import { colour, go, named, state } from "./state.js";

const LAID = 1500; // ms between polls for the layout by neighbours
const [SHOWN, LISTED] = [6, 9]; // texts shown of a region; regions that have buttons
const LAYOUTS = { neighbours: "Neighbours", pca: "PCA", "3-D": "3-D" };
const NO_REGION = { region: "", only: "" };

let on; // open(text), ask(words), visit(change), show(), drawn(), point(hit or null)
let plot = null;
let polling;
let seen = ""; // the view in the address

export function connect(callbacks) {
  on = callbacks;
  const named = (label, name, act) => button(label, act, { "aria-label": name, title: name });
  $("#zoom").replaceChildren(
    named("−", "Zoom out", () => plot?.scaleBy(1 / 1.4)),
    named("+", "Zoom in", () => plot?.scaleBy(1.4)),
    named("⟲", "Show everything again", whole),
  );
  $("#region").addEventListener("keydown", ({ key: pressed }) => pressed === "Escape" && leave());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot?.restyle());
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

/** Polls until the layout by neighbours is complete, with all texts stored meanwhile, and draws it. */
async function awaitLayout(map) {
  if (map !== state.map) return;
  const others = () => String(map.collections) !== String(named()); // other collections are chosen, or none
  const later = () => (polling = setTimeout(awaitLayout, LAID, map));
  if (others()) return later();
  const answer = await call("map", { collections: map.collections, points: false }).catch(() => null);
  if (map !== state.map) return;
  if (others() || !answer || (answer.coming && signature(answer) === signature(map))) return later();
  const laid = plot?.panel.neighbours;
  await load(map.search).catch(later);
  if (!laid && plot?.panel.neighbours) announce("The map has a new layout: similar texts are now close together.");
}

/** Places a search on the drawn points; redraws if those have changed. */
export async function place(search, signal) {
  const answer = await call("map", { collections: state.map.collections, search, points: false }, signal);
  if (signature(answer) !== signature(state.map)) return load(search, signal);
  showPlaces({ ...answer, search });
}

/** Removes the search from the map. */
export function unplace() {
  if (state.map) showPlaces({ hits: [], queries: [], search: null });
}

const layout = () => (state.route.layout in LAYOUTS ? state.route.layout : "neighbours");

/** True while another layout is shown than the chosen one, which is being computed. */
const waits = () => layout() === "neighbours" && !plot.panel.neighbours && state.map.coming;

function showPanel() {
  const { map } = state;
  const panel = map.panels[state.panel];
  const transform = plot?.camera.transform;
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
  plot = new Plot($("#canvas"), panel, panel.groups.map(({ collection }) => colour(collection)), {
    hover: (found, x, y) => {
      showTip($("#tip"), plot, found, x, y, colour);
      on.point(found?.hit ?? null);
    },
    pick: ({ region, hit, point }) => (region ? enter(region) : on.open(hit ?? panel.about(point))),
    rests: () => {
      if (waits()) return; // the view of another layout is not linked
      seen = plot.camera.view;
      go({ ...state.route, at: seen }, { step: false });
    },
    sized: aim,
    step: (hit) => announce(`${hit.rank}: ${hit.title}, ${hit.collection}, relevance ${fixed(hit.relevance)}`),
  });
  if (transform) plot.camera.transform = transform;
  plot.hide(state.hidden);
  plot.arrange(layout());
  state.chosen = null;
  showAround();
  showPlaces(map);
}

/** Shows the part of the map that the address names, else the hits. */
function aim() {
  if (state.route.at) lookAt(state.route.at);
  else if (state.map.hits.length) plot.approach();
}

function lookAt(view) {
  plot.stop();
  plot.camera.view = view;
  plot.draw(true);
}

/** Shows the map's state in the address. */
export function follow() {
  if (!plot) return;
  const { at = "" } = state.route;
  if (plot.camera.layout !== layout()) plot.arrange(layout());
  if (at !== seen) at ? lookAt(at) : whole();
  seen = at;
  showAround();
}

/** Shows everything around the points. */
function showAround() {
  showLayouts();
  showColours();
  showRegions();
  showRegion();
  showNotes();
}

/** The layouts to choose from: that by neighbours is disabled while computed, and absent if it cannot be. */
function showLayouts() {
  const laid = Boolean(plot.panel.neighbours);
  const shown = laid || layout() !== "neighbours" ? layout() : "pca";
  const choice = ([value, label]) => {
    const made = value !== "neighbours" || laid;
    if (!made && !state.map.coming) return "";
    const choose = () => on.visit({ layout: value === "neighbours" ? "" : value, at: "" });
    const input = h("input", { type: "radio", name: "layout", id: `layout-${value}`, value, checked: value === shown, disabled: !made, onchange: choose });
    return h("label", { title: made ? "" : "This layout is being computed: similar texts will be close together" }, input, h("span", {}, made ? label : `${label}…`));
  };
  redraw($("#layout"), ...Object.entries(LAYOUTS).map(choice));
}

/** The colours of the points and their legend: by collection, or by a value of the payload. */
function showColours() {
  const { panel } = plot;
  const facet = panel.facets.find((one) => one.key === state.route.colour);
  const words = { tags: "tag", created_at: "age" };
  const choices = [["", "collection"], ...panel.facets.map(({ key: name }) => [name, words[name] ?? name])];
  $("#colouring").hidden = choices.length < 2;
  $("#colouring").onchange = ({ target }) => on.visit({ colour: target.value });
  $("#colouring").replaceChildren(...choices.map(([value, label]) => h("option", { value, selected: value === (facet?.key ?? "") }, `Colour by ${label}`)));
  plot.paintBy(facet?.codes ?? panel.groupOf, facet ? facet.values.map((_, n) => hue(n)) : panel.groups.map(({ collection }) => colour(collection)));
  $("main").classList.toggle("recoloured", Boolean(facet));
  $("#legend").setAttribute("aria-label", facet ? `Colours of ${facet.key}` : "Collections shown");
  const values = facet && [...facet.values.map((value, n) => [swatch(hue(n)), value]), [h("i", { class: "swatch none" }), "others"]];
  $("#legend").replaceChildren(...(values ? values.map((value) => h("li", {}, value)) : collectionKeys(plot, colour, state.hidden)));
  showPins();
}

/** The largest regions as buttons, which show their points on focus. */
function showRegions() {
  const { regions } = plot.panel;
  const one = (region) => {
    const focus = { onfocus: () => plot.light(plot.within(region), region), onblur: light };
    return button([region.name, h("span", { class: "count" }, ` ${region.size.toLocaleString("en")}`)], () => enter(region), { class: "use", dir: "auto", id: `region-${region.name}`, ...focus });
  };
  redraw($("#regions"), ...regions.slice(0, LISTED).map((region) => h("li", {}, one(region))));
  $("#regions").hidden = !regions.length;
}

const enter = ({ name }) => on.visit({ region: name, only: "" });

function leave() {
  const { region } = state.route;
  on.visit(NO_REGION);
  (document.getElementById(`region-${region}`) ?? plot.canvas).focus();
}

/** Emphasises the open region. */
const light = () => plot.light(state.chosen?.points ?? null, state.chosen?.region);

/** Shows the region in the address once it exists: its words, its texts, a search in it. */
function showRegion() {
  const { region: name, only } = state.route;
  const region = plot.panel.regions.find((one) => one.name === name);
  if (name && !region) return; // not computed yet
  const isNew = name && state.chosen?.region !== region;
  if (isNew) {
    const points = plot.within(region);
    const step = Math.ceil(points.length / state.setup.most); // a search accepts at most so many ids
    const ids = points.filter((_, n) => n % step === 0).map((point) => plot.panel.about(point).id);
    state.chosen = { region, points, ids };
    announce(`Region ${region.words.join(", ")}, ${plural(points.length, "point")}`);
  } else if (!name) state.chosen = null;
  light();
  const card = $("#region");
  const [before, wasHidden] = [document.activeElement, card.hidden];
  card.hidden = !name;
  if (!name) return;
  const { points, ids } = state.chosen;
  const limited = ids.length < points.length ? ` (in ${plural(ids.length, "point")} of them)` : "";
  redraw(
    card,
    h("h3", { dir: "auto", tabIndex: -1 }, region.words.join(", ")),
    h("p", { class: "hint" }, plural(points.length, "point")),
    typicalTexts(plot, points, SHOWN, on.open),
    h(
      "p",
      { class: "acts" },
      button(`Search only here${limited}`, () => on.visit({ only: only ? "" : "1" }), { id: "only", "aria-pressed": String(Boolean(only)) }),
      button("More like this", () => on.ask(region.words.slice(0, 5).join(" "))),
      button("Close", leave),
    ),
  );
  if (wasHidden && before.matches(":focus-visible")) $("h3", card).focus();
  if (wasHidden) card.scrollIntoView({ block: "nearest" });
  if (isNew && only) on.show();
}

function showPlaces({ hits, queries, search, notes }) {
  const before = JSON.stringify(state.map.hits);
  Object.assign(state.map, { hits, queries, search, notes: notes ?? state.map.notes });
  showNotes();
  if (!plot) return;
  showPins();
  if (before !== JSON.stringify(hits)) aim();
}

/** The pins have the colours of the collections, unless the map has other colours. */
function showPins() {
  const own = ({ panel }) => panel === state.panel;
  const coloured = state.map.hits.filter(own).map((hit) => ({ ...hit, colour: state.route.colour ? plot.surface : colour(hit.collection) }));
  plot.show(coloured, state.map.queries.find(own) ?? null);
  mark();
}

/** Shows the explained variance, and what is not on the map. */
function showNotes() {
  const { notes } = state.map;
  const said = notes.map((note) => h("p", { class: "hint" }, note));
  if (plot) said.unshift(h("p", {}, `${plot.camera.near ? "Similar texts are close together; distances between groups mean little." : variance(plot.panel)} ${size(plot.panel)}.`));
  else if (!notes.length) said.push(h("p", { class: "empty" }, "There is nothing to draw."));
  $("#map-notes").replaceChildren(...said);
}

function variance({ explained }) {
  const shares = explained.slice(0, plot.camera.solid ? 3 : 2);
  const each = shares.map((share, axis) => `PC ${axis + 1} ${(share * 100).toFixed(1)} %`).join(", ");
  return `${percent(shares.reduce((sum, share) => sum + share, 0))} of the variance is shown: ${each}.`;
}

/** Marks the open text. */
export const mark = () => plot?.mark(state.open && key(state.open));

/** Hides deleted texts. */
export const drop = () => plot?.drop();

/** Shows the whole map. */
export const whole = () => plot?.reset();

/** Highlights the result that the list points at. */
export const highlight = (result) => plot?.highlight(plot.hits.find((hit) => result && key(hit) === key(result)) ?? null);
