// The state of the page. What can be linked is in the address, after the #, which no server sees.

import { hue } from "./raster.js";

const SEVERAL = ["in", "tag"]; // names that may be repeated in the address

export const state = {
  setup: null, // from the server: collections, defaults, may, days, most
  tags: {}, // collection -> its tags, the most frequent first
  route: { in: [], tag: [] }, // the parsed address: strings, or lists for `SEVERAL`
  shown: null, // the search whose answer is shown, as JSON; "home" before the first one
  answer: null, // its answer
  weak: false, // true if weak matches are unfolded
  newest: [], // texts of the start view
  list: { rows: [], total: 0, sorted: 0 }, // the list of texts
  open: null, // the open text
  map: null, // panels, their collections, and the search on it with its hits
  panel: 0, // index of the map's shown panel
  chosen: null, // the open region: { region, points, ids }
  hidden: new Set(), // collections hidden on the map
  running: 0, // calls in progress
};

export const NONE = "-"; // no collection
export const LIMITS = ["5", "10", "20", "50", "100"];
// Settings that the server gets under their names in the address.
export const PREFERENCES = ["priority", "recency_weight", "fuzzy_boost", "correct", "rerank"];
const SETTINGS = ["algorithm", "meaning", "in", "tag", "limit", ...PREFERENCES];
/** A change of the route that closes the text. */
export const CLOSED = { doc: "", of: "" };

/** Parses the address after the # as a route. */
export function read(hash) {
  const given = new URLSearchParams(hash);
  const route = Object.fromEntries(SEVERAL.map((name) => [name, given.getAll(name)]));
  for (const [name, value] of given) if (!SEVERAL.includes(name)) route[name] = value;
  return route;
}

/** Writes a route as the address after the #. */
export function written(route) {
  const pairs = Object.entries(route).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  return String(new URLSearchParams(pairs.filter(([, one]) => one !== "" && one != null)));
}

/** Puts a route into the address: as a new history entry, or in place. */
export function go(route, { step = true } = {}) {
  const hash = written(route);
  if (hash !== location.hash.slice(1)) history[step ? "pushState" : "replaceState"](null, "", `#${hash}`);
  state.route = read(hash);
}

export const collections = () => state.setup.collections;
export const known = () => collections().map(({ name }) => name).sort();

/** The collections that are searched, drawn and listed. */
export function chosen() {
  const names = state.route.in;
  const there = known().filter((name) => names.includes(name));
  return there.length || names.includes(NONE) ? there : known();
}

/** The same for the server: `["*"]` for all. */
export const named = () => (chosen().length === known().length ? ["*"] : chosen());

/** The change of the route that chooses these collections. */
export const choosing = (names) => ({ in: names.length === known().length ? [] : names.length ? names : [NONE] });

export const colour = (collection) => hue(Math.max(known().indexOf(collection), 0));

/** The value of a setting; the server's default if the address has none. */
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

/** The arguments of the search for the server. */
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
      // a mistyped address
    }
  }
  if (route.only && state.chosen) found.ids = state.chosen.ids;
  return found;
}
