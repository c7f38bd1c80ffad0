// The start view: collections, their tags, the newest texts; or how to begin.

import { call } from "./api.js";
import { $, button, clip, h, key, plural, there } from "./dom.js";
import { swatch } from "./points.js";
import { counted } from "./settings.js";
import { collections, colour, state } from "./state.js";

const [TAGS, NEWEST, SAMPLES] = [5, 6, 4];
// The demo's collections, each with a question that it answers.
const DEMO = {
  homelab: "What happens to the servers during a blackout?",
  meetings: "Why could customers not use the app that Saturday?",
  recipes: "Something warm to eat when I am ill",
};
const READS = "This page is read-only. mcp-server-qdrant --transport streamable-http serves one that can also write, with three demo collections.";
const UNITS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];

/** How long ago a moment was: a number and its unit. */
function since(moment) {
  const seconds = (Date.now() - new Date(moment)) / 1000;
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["second", 1];
  return [Math.floor(Math.max(seconds, 0) / size), unit];
}

export function ago(moment) {
  const [count, unit] = since(moment);
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-count, unit);
}

/** The age of a text, by its day. */
export function old(day) {
  const [count, unit] = since(day);
  return count === 1 ? `${unit === "hour" ? "an" : "a"} ${unit} old` : `${plural(count, unit)} old`;
}

/** Example questions: the demo's, or one about the tags of a collection; then one per large region. */
function questions() {
  const about = (words) => `What is said about ${words.join(" and ")}?`;
  const tags = ({ name }) => (state.tags[name] ?? []).slice(0, 2);
  const own = collections().map((one) => DEMO[one.name] ?? (tags(one).length ? about(tags(one)) : null)).filter(Boolean);
  const regions = (state.map?.panels[state.panel]?.regions ?? []).filter(({ name }) => !name.endsWith(" texts"));
  return [...own, ...regions.map(({ name }) => about(name.split(", ")))].slice(0, SAMPLES);
}

/** `on`: open(text), ask(words), visit(change). */
export function showHome(on) {
  const tip = (word, act) => button(word, act, { class: "use" });
  const title = (label, act) => button(label, act, { class: "open", dir: "auto" });
  const texts = (name, tag) => () => on.visit({ view: "texts", in: [name], tag });
  const card = ({ name, description, updated_at: updated, ...one }) =>
    h(
      "li",
      { class: "tile" },
      h("h3", {}, swatch(colour(name)), title(name, texts(name, []))),
      h("p", { class: "where" }, `${counted(one)} ${one.points === 1 ? "point" : "points"}${updated ? `, ${ago(updated)}` : ""}`),
      description && h("p", { class: "excerpt", dir: "auto" }, clip(description, 140)),
      h("p", { class: "chips" }, (state.tags[name] ?? []).slice(0, TAGS).map((tag) => tip(tag, texts(name, [tag])))),
    );
  const newest = (one) =>
    h("li", { dataset: { key: key(one) } }, swatch(colour(one.collection)), title(clip(one.title || one.text, 90), () => on.open(one)), h("span", { class: "where" }, one.date ?? ""));
  const samples = questions();
  $("#home").replaceChildren(
    samples.length ? h("p", { class: "tries" }, h("span", { class: "about" }, "Try "), samples.map((words) => tip(words, () => on.ask(words)))) : "",
    h("ul", { class: "tiles" }, collections().map(card)),
    h("h3", { class: "subhead" }, "Newest"),
    h("ul", { class: "newest" }, state.newest.filter(there).slice(0, NEWEST).map(newest)),
  );
}

/** The start view of an empty store. `on`: failed(error, again), changed(), progress(by). */
export function showEmpty(on) {
  const url = new URL("mcp", location.href.replace(/[^/]*$/, "")).href;
  const text = JSON.stringify({ mcpServers: { qdrant: { type: "http", url } } }, null, 2);
  const copy = button("Copy", () => navigator.clipboard.writeText(text).then(() => (copy.textContent = "Copied")));
  const demo = button("Load three demo collections", () => fill(), { class: "primary" });
  const fill = async () => {
    demo.disabled = true;
    on.progress(1);
    try {
      await Promise.all(Object.keys(DEMO).map((name) => call("demo", { name })));
      await on.changed();
    } catch (error) {
      demo.disabled = false;
      on.failed(error, fill);
    } finally {
      on.progress(-1);
    }
  };
  $("#home").replaceChildren(
    h("p", {}, "This is what your agents remember: search it, see on a map what belongs together, and correct what is wrong. Nothing is stored yet; what an agent stores appears here by itself."),
    h("div", {}, state.setup.may.store ? demo : "", h("p", { class: "hint" }, state.setup.may.store ? "Short texts of a home network, of meetings and of a kitchen." : READS)),
    h("h3", { class: "subhead" }, "Connect your client"),
    state.setup.may.store ? h("div", { class: "snippet" }, h("pre", { tabIndex: 0 }, text), copy) : h("pre", { tabIndex: 0 }, "mcp-server-qdrant init"),
    h("h3", { class: "subhead" }, "Or store a folder"),
    h("pre", { tabIndex: 0 }, "mcp-server-qdrant ingest ~/notes --collection notes"),
  );
}
