// What is here, before anything is asked: collections, topics, newest texts; or how to begin.

import { call } from "./api.js";
import { counted } from "./controls.js";
import { clip, h, sized } from "./dom.js";
import { telling } from "./words.js";

const TOPICS = 5; // words of each collection
const NEWEST = 6;
const SAMPLES = 4;
const DEMO = ["homelab", "meetings", "recipes"];
const UNITS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];

/** How long ago a moment was, in one unit. */
export function ago(moment) {
  const seconds = (Date.now() - new Date(moment)) / 1000;
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["second", 1];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.floor(Math.max(seconds, 0) / size), unit);
}

/** A sample query: the words of a title that tell most, as somebody would type them. */
const sample = (rows, topics) => {
  const titles = rows.map(({ title }) => title).filter((title) => title && title.length < 60);
  const told = (title) => topics.filter((word) => title.toLowerCase().includes(word)).length;
  return titles.sort((a, b) => told(b) - told(a))[0];
};

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
        sized(h("i", { class: "swatch" }), "background", colour(one.name)),
        h("button", { type: "button", class: "open", dir: "auto", onclick: () => on.only(one.name) }, one.name),
      ),
      h("p", { class: "where" }, `${counted(one)} ${one.points === 1 ? "point" : "points"}`, one.updated_at ? `, ${ago(one.updated_at)}` : ""),
      one.description ? h("p", { class: "excerpt", dir: "auto" }, clip(one.description, 140)) : "",
      h("p", { class: "chips" }, (topics[one.name] ?? []).map((word) => tip(word, () => on.ask(word), `Search for ${word}`))),
    );
  };
  const all = Object.values(newest).flat().sort((a, b) => (b.date ?? "").localeCompare(a.date ?? ""));
  const samples = Object.entries(newest).map(([name, rows]) => sample(rows, topics[name] ?? [])).filter(Boolean);
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
          {},
          sized(h("i", { class: "swatch", title: one.collection }), "background", colour(one.collection)),
          h("button", { type: "button", class: "open", dir: "auto", onclick: () => on.open(one) }, clip(one.title || one.text, 90)),
          h("span", { class: "where" }, one.date ?? ""),
        ),
      ),
    ),
  );
}

/** Nothing is stored yet. `on`: filled(), failed(error). */
export function showEmpty(holder, setup, on) {
  const url = new URL("mcp", location.href.replace(/[^/]*$/, "")).href;
  const text = JSON.stringify({ mcpServers: { qdrant: { type: "http", url } } }, null, 2);
  const copy = h("button", { type: "button", onclick: () => navigator.clipboard.writeText(text).then(() => (copy.textContent = "Copied")) }, "Copy");
  const demo = h("button", { type: "button", class: "primary", onclick: () => fill() }, "Load three demo collections");
  const fill = async () => {
    demo.disabled = true;
    try {
      for (const name of DEMO) {
        demo.textContent = `Storing ${name}…`;
        await call("demo", { name });
      }
      on.filled();
    } catch (error) {
      demo.disabled = false;
      demo.textContent = "Load three demo collections";
      on.failed(error, fill);
    }
  };
  holder.replaceChildren(
    h("p", {}, "Nothing is stored yet. This page fills by itself as soon as something is."),
    setup.may.store ? h("p", {}, demo, h("span", { class: "hint" }, " Short texts of a home network, of meetings and of a kitchen.")) : "",
    h("h3", { class: "subhead" }, "Connect your client"),
    h("div", { class: "snippet" }, h("pre", { tabIndex: 0 }, text), copy),
    h("h3", { class: "subhead" }, "Or store a folder"),
    h("pre", { tabIndex: 0 }, "mcp-server-qdrant ingest ~/notes --collection notes"),
  );
}
