// All that the page knows and shows, in one place. What can be linked is the address: behind the #, which never
// reaches a server or its log.

import { hue } from "./raster.js";

const SEVERAL = ["in", "tag"]; // in the address

export const state = {
  setup: null, // what the server told: collections, defaults, may, days, most
  tags: {}, // collection -> its tags, the most frequent first
  route: read(), // what the address names: texts, and lists of what may occur several times
  shown: null, // the search whose answer is shown, as JSON; "home" before the first one
  answer: null, // of that search
  weak: false, // whether weak matches are unfolded
  comparison: null, // the answers of all algorithms to it
  newest: [], // texts, before the first search
  list: { rows: [], total: 0, sorted: 0 }, // of texts
  open: null, // the text that is open
  map: null, // its panels, of which collections, and the search on it with its hits
  panel: 0, // the one of the map that is shown
  chosen: null, // points of it that stand out: { points, words, ids }
  hidden: new Set(), // collections taken off the map
  running: 0, // calls that are under way
};

export const NONE = "-"; // no collection
export const LIMITS = ["5", "10", "20", "50", "100"];
// What a search asks for beside its words, by its name in the address and for the server.
export const PREFERENCES = ["priority", "recency_weight", "fuzzy_boost", "correct", "rerank"];
const SETTINGS = ["algorithm", "meaning", "in", "tag", "limit", ...PREFERENCES];
/** Of a route: no text is open. */
export const CLOSED = { doc: "", of: "" };

export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const route = Object.fromEntries(SEVERAL.map((name) => [name, given.getAll(name)]));
  for (const [name, value] of given) if (!SEVERAL.includes(name)) route[name] = value;
  return route;
}

/** Takes a route, and shows it in the address: as a step of its own (back leads before it) or in place. */
export function go(route, { step = true } = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(route)) {
    for (const one of [value].flat()) if (one !== "" && one != null) given.append(name, one);
  }
  if (String(given) !== location.hash.slice(1)) history[step ? "pushState" : "replaceState"](null, "", `#${given}`);
  state.route = read();
}

export const collections = () => state.setup.collections;
export const known = () => collections().map(({ name }) => name).sort();

/** The collections that are searched, drawn and listed. */
export function chosen() {
  const names = state.route.in;
  const there = known().filter((name) => names.includes(name));
  return there.length || names.includes(NONE) ? there : known();
}

/** The same as the server takes them: `["*"]` for all. */
export const named = () => (chosen().length === known().length ? ["*"] : chosen());

/** The route that has these collections chosen. */
export const choosing = (names) => ({ in: names.length === known().length ? [] : names.length ? names : [NONE] });

export const colour = (collection) => hue(Math.max(known().indexOf(collection), 0));

/** The value of a setting; the server's own where the address has none. */
export function setting(name) {
  const usual = state.setup.defaults[name];
  const said = state.route[name];
  if (said === undefined) return usual;
  return typeof usual === "number" ? Number(said) : typeof usual === "boolean" ? said === "true" : said;
}

/** The settings in use: pairs of a name in the address and a value. */
export const used = () =>
  Object.entries(state.route)
    .filter(([name]) => SETTINGS.includes(name) || name.startsWith("f."))
    .flatMap(([name, value]) => [value].flat().map((one) => [name, one]));

export const without = (name, value) => ({ [name]: SEVERAL.includes(name) ? state.route[name].filter((one) => one !== value) : "" });
export const unset = () => Object.fromEntries(used().map(([name]) => [name, ""]));

/** What a search asks for, as the server wants it. */
export function asked() {
  const { route } = state;
  const found = { query: route.q, algorithm: route.algorithm, collections: named(), tags: route.tag };
  for (const name of PREFERENCES) found[name] = setting(name);
  if (LIMITS.includes(route.limit)) found.limit = Number(route.limit);
  const meaning = Math.round(Number(route.meaning) * 100);
  if (route.meaning && meaning >= 0 && meaning <= 100) Object.assign(found, { semantic_weight: meaning / 100, keyword_weight: (100 - meaning) / 100 });
  for (const { name } of state.setup.defaults.filters) {
    try {
      if (route[`f.${name}`]) found[name] = JSON.parse(route[`f.${name}`]);
    } catch {
      // an address that somebody mistyped
    }
  }
  if (route.only && state.chosen) found.ids = state.chosen.ids;
  return found;
}
