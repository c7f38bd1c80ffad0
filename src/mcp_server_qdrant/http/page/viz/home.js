// What is here, before anything is asked: collections, topics, newest texts; or how to begin.

import { call } from "./api.js";
import { counted } from "./controls.js";
import { clip, h, key, plural, sized, there } from "./dom.js";
import { swatch } from "./points.js";
import { telling } from "./words.js";

const TOPICS = 5; // words of each collection
const NEWEST = 6;
const SAMPLES = 4;
// The demo's collections, each with a question that it answers.
const DEMO = {
  homelab: "What happens to the servers during a blackout?",
  meetings: "Why could customers not use the app that Saturday?",
  recipes: "Something warm to eat when I am ill",
};
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

/** The age of a text of that day. */
export function old(day) {
  const [count, unit] = since(day);
  return count === 1 ? `${unit === "hour" ? "an" : "a"} ${unit} old` : `${plural(count, unit)} old`;
}

/** A question about a collection of which nothing else is known. */
const question = (topics) => topics.length > 0 && `What is said about ${topics.slice(0, 2).join(" and ")}?`;

/** `on`: open(text), ask(words), only(collection, tag). */
export async function showHome(holder, { setup }, colour, on) {
  if (!holder.children.length) holder.replaceChildren(h("p", { class: "loading" }, "Looking what is here…"));
  const { newest } = await call("home");
  const topics = telling(
    Object.fromEntries(Object.entries(newest).map(([name, rows]) => [name, rows.map(({ title, text }) => `${title ?? ""} ${text}`)])),
    TOPICS,
  );
  const tip = (word, act, label) => h("button", { type: "button", class: "use", onclick: act, title: label }, word);
  const card = (one) => {
    return h(
      "li",
      { class: "tile" },
      h(
        "h3",
        {},
        swatch(colour(one.name)),
        h("button", { type: "button", class: "open", dir: "auto", onclick: () => on.only(one.name) }, one.name),
      ),
      h("p", { class: "where" }, `${counted(one)} ${one.points === 1 ? "point" : "points"}`, one.updated_at ? `, ${ago(one.updated_at)}` : ""),
      one.description ? h("p", { class: "excerpt", dir: "auto" }, clip(one.description, 140)) : "",
      h("p", { class: "chips" }, (topics[one.name] ?? []).map((word) => tip(word, () => on.ask(word), `Search for ${word}`))),
    );
  };
  const all = Object.values(newest).flat().filter(there).sort((a, b) => (b.date ?? "").localeCompare(a.date ?? ""));
  const samples = Object.keys(newest).map((name) => DEMO[name] ?? question(topics[name] ?? [])).filter(Boolean);
  holder.replaceChildren(
    ...(samples.length
      ? [h("p", { class: "tries" }, h("span", { class: "about" }, "Try "), samples.slice(0, SAMPLES).map((words) => tip(words, () => on.ask(words))))]
      : []),
    h("ul", { class: "tiles" }, setup.collections.map(card)),
    h("h3", { class: "subhead" }, "Newest"),
    h(
      "ul",
      { class: "newest" },
      all.slice(0, NEWEST).map((one) =>
        h(
          "li",
          { dataset: { key: key(one) } },
          sized(h("i", { class: "swatch", title: one.collection }), "background", colour(one.collection)),
          h("button", { type: "button", class: "open", dir: "auto", onclick: () => on.open(one) }, clip(one.title || one.text, 90)),
          h("span", { class: "where" }, one.date ?? ""),
        ),
      ),
    ),
  );
}

/** Nothing is stored yet. `on`: failed(error, again). */
export function showEmpty(holder, setup, on) {
  const url = new URL("mcp", location.href.replace(/[^/]*$/, "")).href;
  const text = JSON.stringify({ mcpServers: { qdrant: { type: "http", url } } }, null, 2);
  const copy = h("button", { type: "button", onclick: () => navigator.clipboard.writeText(text).then(() => (copy.textContent = "Copied")) }, "Copy");
  const demo = h("button", { type: "button", class: "primary", onclick: () => fill() }, "Load three demo collections");
  const fill = async () => {
    demo.disabled = true;
    try {
      demo.textContent = "Storing…";
      await Promise.all(Object.keys(DEMO).map((name) => call("demo", { name }))); // which appear as they are stored
    } catch (error) {
      demo.disabled = false;
      demo.textContent = "Load three demo collections";
      on.failed(error, fill);
    }
  };
  holder.replaceChildren(
    h("p", {}, "This is what your agents remember: search it, see on a map what belongs together, and put right what is wrong. Nothing is stored yet; what an agent stores appears here by itself."),
    setup.may.store ? h("p", {}, demo, h("span", { class: "hint" }, " Short texts of a home network, of meetings and of a kitchen.")) : "",
    h("h3", { class: "subhead" }, "Connect your client"),
    h("div", { class: "snippet" }, h("pre", { tabIndex: 0 }, text), copy),
    h("h3", { class: "subhead" }, "Or store a folder"),
    h("pre", { tabIndex: 0 }, "mcp-server-qdrant ingest ~/notes --collection notes"),
  );
}
