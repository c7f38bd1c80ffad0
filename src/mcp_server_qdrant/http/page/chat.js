// The app in the chat: the map of qdrant-project, drawn by the modules of the page.
//
// `app.py` appends this file to those modules, which makes one script without imports.
import { $, announce, clip, fixed, h, plural } from "./viz/dom.js";
import { decode } from "./viz/mapdata.js";
import { Plot } from "./viz/plot.js";
import { collectionKeys, showTip, size, typicalTexts } from "./viz/points.js";
import { hue } from "./viz/raster.js";

const TOOL = "qdrant-project";
const VERSION = "2026-01-26"; // of the extension io.modelcontextprotocol/ui
const [AGAIN, TRIES, LISTED] = [4000, 8, 40];
const root = document.documentElement;
const main = $("main");
// The host's CSS variables -> ours.
const HOST_VARIABLES = {
  "--color-background-primary": "--surface", "--color-background-secondary": "--sunken",
  "--color-text-primary": "--ink", "--color-text-secondary": "--muted",
  "--color-border-primary": "--line", "--font-sans": "--font",
};

// The host: JSON-RPC over postMessage.

let last = 0;
let host = {};
let given = {}; // arguments of the tool
const waiting = new Map();

const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

const ask = (method, params) =>
  new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    send({ id: last, method, params });
  });

const handlers = {
  "ui/notifications/tool-input": (params) => {
    given = params.arguments || {};
    $("#query").value = given.query || "";
  },
  "ui/notifications/tool-result": (result) => showResult(result),
  "ui/notifications/tool-cancelled": (params) => say(`Cancelled. ${params.reason || ""}`, true),
  "ui/notifications/host-context-changed": (params) => applyTheme(params),
};

window.addEventListener("message", ({ source, data: message }) => {
  if (source !== window.parent || message?.jsonrpc !== "2.0") return;
  if (message.method === undefined) {
    const one = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) one?.reject(new Error(message.error.message || "The host refused."));
    else one?.resolve(message.result);
  } else if (message.id === undefined) {
    handlers[message.method]?.(message.params || {});
  } else if (message.method === "ping" || message.method === "ui/resource-teardown") {
    send({ id: message.id, result: {} });
  } else {
    send({ id: message.id, error: { code: -32601, message: "Method not found" } });
  }
});

async function begin() {
  const done = await ask("ui/initialize", {
    protocolVersion: VERSION,
    appInfo: { name: "qdrant-map", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
  });
  host = done.hostCapabilities || {};
  $("#search").disabled = !host.serverTools;
  applyTheme(done.hostContext || {});
  send({ method: "ui/notifications/initialized", params: {} });
  new ResizeObserver(() => {
    const { width, height } = root.getBoundingClientRect();
    send({ method: "ui/notifications/size-changed", params: { width, height: Math.ceil(height) } });
  }).observe(document.body);
}

/** Applies the host's theme, fonts and colours. */
function applyTheme(context) {
  if (context.theme) root.style.colorScheme = context.theme;
  if (context.displayMode) main.dataset.mode = context.displayMode;
  for (const [name, value] of Object.entries(context.styles?.variables || {})) {
    if (HOST_VARIABLES[name] && value) root.style.setProperty(HOST_VARIABLES[name], value);
  }
  plot?.restyle();
}

const sentences = ({ content = [] }) => content.filter(({ type }) => type === "text").map(({ text }) => text).join("\n");

async function call(name, args) {
  if (!host.serverTools) throw new Error("This client does not let the map ask the server. The answer in words is complete.");
  const result = await ask("tools/call", { name, arguments: args });
  if (result.isError) throw new Error(sentences(result));
  return result;
}

function say(sentence, wrong = false) {
  announce(sentence);
  $("#status").classList.toggle("wrong", wrong);
}

const failed = (error) => say(error.message, true);

// The map.

let map = null;
let at = 0; // the panel that is shown
let plot = null;
let tries = 0;
let later;

async function showResult(result) {
  clearTimeout(later);
  try {
    if (result.isError) throw new Error(sentences(result));
    let found = result.structuredContent?.map;
    if (!found) {
      say("Reading the points …");
      found = (await call(TOOL, { ...given, points: true })).structuredContent?.map;
    }
    if (!found) throw new Error(sentences(result) || "There is no map in this result.");
    map = decode(found);
    showHits();
    // The layout by neighbours is being computed.
    if (map.coming && host.serverTools && ++tries < TRIES) later = setTimeout(search, AGAIN, false);
  } catch (error) {
    main.classList.toggle("empty", !map);
    failed(error);
  }
}

/** Shows the list of hits, and the panel with the best one. */
function showHits() {
  const choice = $("#panels");
  choice.replaceChildren(...map.panels.map((panel, index) => new Option(panel.model, index)));
  choice.hidden = map.panels.length < 2;
  at = map.hits.find(({ panel }) => panel !== null)?.panel ?? Math.min(at, Math.max(map.panels.length - 1, 0));
  choice.value = at;
  const mark = (one) => () => plot?.highlight(plot.hits.find(({ rank }) => rank === one?.rank) ?? null);
  const row = (one) => {
    const events = { onclick: () => readPoint(one), onmouseenter: mark(one), onfocus: mark(one), onmouseleave: mark(), onblur: mark() };
    return h("li", {}, h("button", { type: "button", dir: "auto", ...events }, `${one.rank}. ${one.title}`, h("small", {}, ` ${one.collection}, ${fixed(one.relevance)}`)));
  };
  $("#hits").replaceChildren(...map.hits.map(row));
  draw();
}

/** Draws a panel of the map; the view stays where it was. */
function draw() {
  const panel = map.panels[at];
  const transform = plot?.camera.transform;
  plot?.destroy();
  plot = null;
  main.classList.toggle("empty", !panel);
  if (!panel) return say([...map.notes, "There is nothing to draw yet. Store a text, or name other collections, and ask for the map again."].join(" "));
  const names = map.panels.flatMap(({ groups }) => groups.map(({ collection }) => collection)).sort();
  const colour = (name) => hue(names.indexOf(name));
  plot = new Plot($("#stage"), panel, panel.groups.map(({ collection }) => colour(collection)), {
    hover: (found, x, y) => showTip($("#tip"), plot, found, x, y, colour),
    step: (hit) => say(`${hit.rank}: ${hit.title}`),
    pick: ({ region, hit, point }) => (region ? list(region) : readPoint(hit ?? panel.about(point))),
  });
  if (transform) plot.camera.transform = transform;
  const hits = map.hits.filter((hit) => hit.panel === at);
  plot.show(hits.map((hit) => ({ ...hit, colour: colour(hit.collection) })), map.queries.find((query) => query.panel === at) ?? null);
  plot.arrange(given.dimensions === 3 ? "3-D" : "neighbours");
  $("#legend").replaceChildren(...collectionKeys(plot, colour, new Set()));
  $("#share").textContent = size(panel);
  say(map.notes.join(" "));
}

// A click on a point reads its text through the host; the search field draws the map again.

function openCard(title, ...body) {
  const close = () => {
    $("#text").hidden = true;
    plot?.light(null);
    plot?.canvas.focus();
  };
  const head = h("h2", { tabIndex: -1, dir: "auto" }, title);
  $("#text").replaceChildren(head, ...body, " ", h("button", { type: "button", onclick: close }, "Close"));
  $("#text").hidden = false;
  head.focus();
}

/** The texts of a region. */
function list(region) {
  const points = plot.within(region);
  plot.light(points, region);
  openCard(region.words.join(", "), h("small", {}, plural(points.length, "point")), typicalTexts(plot, points, LISTED, readPoint));
}

async function readPoint(one) {
  const text = h("pre", { tabIndex: 0, dir: "auto" }, one.snippet || "Reading …");
  const source = h("button", { type: "button", hidden: true }, "Open the source");
  openCard(one.title || one.id, text, source);
  try {
    const result = await call("qdrant-get", { ids: [one.id], collection_name: one.collection });
    const document = result.structuredContent?.documents?.[0];
    text.textContent = document ? document.text : sentences(result);
    const url = document?.source || "";
    source.hidden = !(host.openLinks && /^https?:[/]{2}/.test(url));
    source.onclick = () => ask("ui/open-link", { url }).catch(failed);
  } catch (error) {
    failed(error);
  }
}

/** Asks for the map again: with the words of the field, or silently, as it is. */
async function search(aloud = true) {
  clearTimeout(later);
  const { query: _, image: __, ...kept } = given;
  const query = aloud ? $("#query").value.trim() : map.query;
  if (aloud) {
    tries = 0;
    $("#text").hidden = true;
    say("Searching …");
  }
  await call(TOOL, { ...kept, ...(query && { query }), points: true }).then(showResult).catch(failed);
}

$("#in").onclick = () => plot?.scaleBy(1.3);
$("#out").onclick = () => plot?.scaleBy(1 / 1.3);
$("#all").onclick = () => plot?.reset();
$("#panels").onchange = ({ target }) => {
  at = Number(target.value);
  $("#text").hidden = true;
  draw();
};
// Not a form: a sandbox may forbid submitting one.
$("#query").addEventListener("keydown", ({ key: pressed }) => pressed === "Enter" && search());
$("#search").onclick = () => search();
begin().catch(failed);
