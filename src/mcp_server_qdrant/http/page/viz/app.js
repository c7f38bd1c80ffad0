// The page: what was asked, what is shown, and what happens when the server is away.

import { call, Refused, token, Unreachable } from "./api.js";
import { judgementsLine, table } from "./compare.js";
import { Controls } from "./controls.js";
import { $, announce, h } from "./dom.js";
import { clear, judge, judged } from "./judgements.js";
import { MapCard } from "./map.js";
import { openPassage } from "./passage.js";
import { palette } from "./plot.js";
import { about, sentences, showResults } from "./results.js";

const PATIENCE = 250; // ms after the last change of a setting until it is searched again
const AGAIN = 3000; // ms between tries to reach a server that is away

const colours = new Map();
const colour = (collection) => colours.get(collection) ?? "#888";
const state = { query: "", answer: null, rows: null, compared: null };
let under = null; // the search that is under way
let drawing = null; // the map that is being drawn
let running = 0; // how much is under way
let timer;

const controls = new Controls($("#settings"), changed, redraw);
const map = new MapCard(colour, {
  open: (one) => openPassage(one, state.query),
  point: (hit) => {
    for (const element of document.querySelectorAll(".hit")) {
      const { id, collection } = element.dataset;
      element.classList.toggle("pointed", id === hit?.id && collection === hit?.collection);
    }
  },
});

$("#ask").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
$("#theme").addEventListener("click", () => globalThis.toggleTheme());
$("#token").addEventListener("click", askToken);
$("#compare-run").addEventListener("click", compare);
document.addEventListener("theme", nameTheme);
nameTheme();
showJudgements();
if (matchMedia("(max-width: 60rem)").matches) $("#controls").open = false;
start();

function nameTheme() {
  const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  $("#theme").setAttribute("aria-label", `Switch to the ${other} theme`);
  $("#theme").title = `Switch to the ${other} theme`;
}

/** What the page knows of the server, then the map. Tried again for as long as nothing answers. */
async function start() {
  progress(true);
  try {
    const setup = await call("setup");
    const names = setup.collections.map(({ name }) => name).sort();
    const hues = palette(names.length);
    names.forEach((name, place) => colours.set(name, hues[place]));
    controls.build(setup, colour);
    $("#foot").textContent = `mcp-server-qdrant ${setup.defaults.version}`;
    well();
    if (!names.length) return nothingYet();
    call("tags").then(({ tags }) => controls.showTags(tags), () => {});
    await redraw();
    if (!state.answer) invite();
  } catch (error) {
    failed(error, start);
  } finally {
    progress(false);
  }
}

/** Draws the chosen collections. */
async function redraw() {
  clearTimeout(timer);
  drawing?.abort();
  if (!controls.chosen?.size) return;
  const mine = (drawing = new AbortController());
  try {
    await map.load(controls.named(), controls.points, state.answer ? asked() : null, mine.signal);
    well();
  } catch (error) {
    if (error.name !== "AbortError") failed(error, redraw);
  }
}

const asked = () => ({ query: state.query, ...controls.asked() });

/** A setting was changed: what was searched is searched again. */
function changed() {
  clearTimeout(timer);
  if (state.query) timer = setTimeout(search, PATIENCE);
}

async function search() {
  clearTimeout(timer);
  under?.abort();
  const mine = (under = new AbortController());
  state.query = $("#query").value.trim();
  if (!state.query) {
    state.answer = state.rows = null;
    map.unplace();
    invite();
    return;
  }
  if (!controls.chosen) return; // not started yet
  if (!controls.chosen.size) return failed(new Error("Choose at least one collection."), null);
  progress(true);
  const wanted = asked();
  try {
    state.answer = await call("search", wanted, mine.signal);
    if (state.compared !== JSON.stringify(wanted)) state.rows = null;
    well();
    showAnswer();
    await map.place(wanted, mine.signal);
  } catch (error) {
    if (error.name !== "AbortError") failed(error, search);
  } finally {
    if (under === mine) progress(false);
  }
}

function showAnswer() {
  const { answer, query } = state;
  const collections = controls.named();
  const grades = judged(query, collections);
  const said = sentences(answer);
  $("#results-about").textContent = about(answer);
  $("#bar-key").hidden = !answer.results.length;
  $("#notes").hidden = !said.length;
  $("#notes").replaceChildren(...said.map((one) => h("li", {}, one)));
  showResults($("#hits"), answer.results, {
    query,
    grades,
    colour,
    on: {
      open: (one) => openPassage(one, query),
      point: (one) => map.highlight(one),
      judge: (one, grade) => {
        judge(query, collections, one.id, grade);
        thumbed(one, judged(query, collections)[one.id]);
        showJudgements();
        showComparison();
      },
    },
  });
  announce(`${about(answer)}. ${said.join(" ")}`);
  showComparison();
}

/** Both thumbs of one result, as they now are; the focus stays where it was. */
function thumbed(one, grade) {
  const item = [...document.querySelectorAll(".hit")].find(
    ({ dataset }) => dataset.id === one.id && dataset.collection === one.collection,
  );
  item?.querySelectorAll(".thumb").forEach((thumb, place) => {
    thumb.setAttribute("aria-pressed", String(grade === 1 - place));
  });
}

async function compare() {
  if (!state.query) {
    $("#query").focus();
    return announce("Search for something first.");
  }
  const button = $("#compare-run");
  button.disabled = true;
  button.textContent = "Comparing…";
  progress(true);
  try {
    const wanted = asked();
    const { algorithms } = await call("compare", wanted);
    if (wanted.query === state.query) {
      state.rows = algorithms;
      state.compared = JSON.stringify(wanted);
    }
    well();
    showComparison();
    announce("The algorithms are compared.");
  } catch (error) {
    failed(error, compare);
  } finally {
    button.disabled = false;
    button.textContent = "Compare";
    progress(false);
  }
}

function showComparison() {
  const { rows, query } = state;
  const grades = judged(query, controls.named());
  const nothing = query ? "Press Compare to run all four." : "Search for something, then compare.";
  $("#comparison").replaceChildren(rows ? table(rows, query, grades) : h("p", { class: "hint" }, nothing));
}

function showJudgements() {
  const line = judgementsLine(() => {
    clear();
    showJudgements();
    if (state.answer) showAnswer();
  });
  $("#judgements").replaceChildren(...line);
}

/** Before the first search. */
function invite() {
  $("#results-about").textContent = "";
  $("#bar-key").hidden = $("#notes").hidden = true;
  $("#hits").replaceChildren(
    h("li", { class: "empty" }, "Ask something: the best passages of all chosen collections stand here, and say why."),
  );
  showComparison();
}

function nothingYet() {
  const command = "mcp-server-qdrant ingest ~/notes --collection notes";
  map.busy(false);
  $("#panels").replaceChildren(
    h("div", { class: "empty" }, h("h3", {}, "No collections yet"), h("p", {}, "Store something from your client, or:"), h("code", {}, command)),
  );
  $("#hits").replaceChildren(h("li", { class: "empty" }, "There is nothing to search yet."));
}

// What is going wrong, and how it gets well again.

function failed(error, again) {
  const alert = $("#alert");
  map.busy(false);
  if (error instanceof Refused && error.status === 401) {
    $("#token").hidden = false;
    askToken();
  }
  const retry = again && h("button", { type: "button", onclick: () => again() }, "Try again");
  alert.replaceChildren(h("span", {}, error.message), retry ?? "");
  alert.hidden = false;
  if (error instanceof Unreachable) timer = setTimeout(again, AGAIN);
}

function well() {
  $("#alert").hidden = true;
  $("#alert").replaceChildren();
}

function progress(on) {
  running = Math.max(0, running + (on ? 1 : -1));
  $("#progress").hidden = running === 0;
  $("#results").setAttribute("aria-busy", String(running > 0));
}

function askToken() {
  const dialog = $("#access");
  const input = h("input", { id: "token-value", type: "password", autocomplete: "off", value: token.get() });
  dialog.replaceChildren(
    h("h2", { id: "access-title" }, "Access token"),
    h("p", { class: "hint" }, "This server asks who you are. The token is kept in this tab only, until it is closed."),
    h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          token.set(input.value.trim());
          dialog.close();
          start();
        },
      },
      h("label", { htmlFor: "token-value" }, "Token"),
      input,
      h("footer", {}, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), h("button", { type: "submit", class: "primary" }, "Use it")),
    ),
  );
  if (!dialog.open) dialog.showModal();
}
