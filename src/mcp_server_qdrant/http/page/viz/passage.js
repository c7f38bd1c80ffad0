// One stored text in full, in a dialog: its parts, its origin, what is like it, and changes to it.

import { call } from "./api.js";
import { $, clip, fixed, h } from "./dom.js";
import { later, say } from "./toast.js";
import { marked } from "./words.js";

const LIKE = 6; // texts like this one
const ASKED = 600; // characters of a text that they are asked for by

let current = null; // what is open, and for whom

/** Only addresses of the web are links; a text may hold anything. */
export function linkable(source) {
  try {
    return ["http:", "https:"].includes(new URL(source).protocol);
  } catch {
    return false;
  }
}

export function closeText() {
  current = null;
  if ($("#passage").open) $("#passage").close();
}

function frame(title, ...body) {
  const dialog = $("#passage");
  dialog.replaceChildren(
    h(
      "header",
      {},
      h("h2", { id: "passage-title", dir: "auto" }, title),
      h("button", { type: "button", class: "icon close", "aria-label": "Close", onclick: () => dialog.close() }, "×"),
    ),
    ...body,
  );
  dialog.onclose = () => {
    const closed = current;
    current = null;
    closed?.close();
  };
  if (!dialog.open) dialog.showModal();
}

/** A value of the metadata as a person writes it. */
function readable(value) {
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A link where it is one, else what can be copied. */
function origin(source) {
  if (linkable(source)) return h("a", { href: source, target: "_blank", rel: "noopener noreferrer" }, source);
  const copy = h("button", { type: "button", class: "link", onclick: () => navigator.clipboard.writeText(source).then(() => (copy.textContent = "Copied")) }, "Copy");
  return [source, " ", copy];
}

function details(one) {
  const rows = [
    ["Collection", one.collection],
    ["Part", one.part],
    ["Tags", one.tags?.join(", ")],
    ["Created", one.created_at],
    ["Source", one.source && origin(one.source)],
    ["Id", one.document ?? one.id],
    ...Object.entries(one.metadata ?? {}).filter(([name]) => !["created_at", "source", "tags", "title"].includes(name)).map(([name, value]) => [name, readable(value)]),
  ].filter(([, value]) => value);
  return h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value))));
}

/** The text, the part that was found marked as such. */
function body(one, part, query) {
  const holder = h("div", { class: "text", tabIndex: 0, role: "region", "aria-label": "Text", dir: "auto" });
  const from = part ? one.text.indexOf(part) : -1;
  if (from < 0 || part.length === one.text.length) holder.append(...marked(one.text, query));
  else {
    const here = h("div", { class: "part-found" }, marked(part, query));
    holder.append(...marked(one.text.slice(0, from), query), here, ...marked(one.text.slice(from + part.length), query));
    requestAnimationFrame(() => here.scrollIntoView({ block: "center" }));
  }
  return holder;
}

/**
 * Opens the text of a point; a failure is said where the text would be. `on`: query, setup, open(text), close(), changed().
 */
export async function openText({ id, collection, title }, on) {
  const mine = (current = on);
  const still = () => current === mine;
  frame(title || "Text", h("p", { class: "loading" }, "Loading the text…"));
  try {
    const read = async (asked) => {
      const answer = await call("text", { collection, ...asked });
      return { ...answer.documents[0], notes: answer.notes };
    };
    let one = await read({ id });
    const part = one.part ? one.text : null;
    if (part && one.document) one = await read({ id: one.document });
    if (still()) show(one, part, on);
  } catch (error) {
    if (still()) frame(title || "Text", h("p", { class: "failed", role: "alert" }, error.message));
  }
}

function show(one, part, on) {
  const { may, collections } = on.setup;
  const whole = !one.notes.length;
  const like = h("section", { class: "like", "aria-label": "Texts like this one" });
  const button = (label, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, label);
  const others = collections.map(({ name }) => name).filter((name) => name !== one.collection);
  const place = h("select", { "aria-label": "Move to" }, h("option", { value: "" }, "Move to…"), others.map((name) => h("option", { value: name }, name)));
  place.addEventListener("change", () => place.value && move(one, place.value, on));
  frame(
    one.title || clip(one.text, 80) || "Text",
    details(one),
    one.superseded_by
      ? h("p", { class: "notes" }, "A newer text stands for this one. ", button("Open it", () => on.open({ id: one.superseded_by, collection: one.collection }), "link"))
      : "",
    body(one, part, on.query),
    one.notes.map((note) => h("p", { class: "hint" }, note)),
    like,
    h(
      "footer",
      {},
      button("More like this", () => showLike(like, one, on)),
      may.store && whole ? button("Edit", () => edit(one, part, on)) : "",
      may.delete && may.store && whole && others.length ? place : "",
      may.delete ? button("Delete…", () => confirmed(one, part, on), "danger") : "",
    ),
  );
}

/** What lies near it: found by its own words, as an agent would. */
async function showLike(holder, one, on) {
  holder.replaceChildren(h("p", { class: "loading" }, "Looking for texts like this one…"));
  try {
    const query = clip(`${one.title ?? ""} ${one.text}`.trim(), ASKED);
    const { results } = await call("search", { query, collections: ["*"], limit: LIKE + 1, correct: false });
    const own = (hit) => hit.id === one.id && hit.collection === one.collection;
    const copies = results.filter(own).flatMap((hit) => hit.also_in ?? []);
    const rows = results.filter((hit) => !own(hit)).slice(0, LIKE);
    const line = (hit, said) =>
      h("li", {}, h("button", { type: "button", class: "open", dir: "auto", onclick: () => on.open(hit) }, clip(hit.title || hit.text || hit.id, 90)), h("span", { class: "where" }, said));
    holder.replaceChildren(
      h("h3", { class: "subhead" }, "Like this one"),
      h("ul", { class: "newest" }, copies.map((copy) => line(copy, `the same text in ${copy.collection}`)), rows.map((hit) => line(hit, `${hit.collection}, ${fixed(hit.relevance)}`))),
      copies.length + rows.length ? "" : h("p", { class: "hint" }, "Nothing is like it."),
    );
  } catch (error) {
    holder.replaceChildren(h("p", { class: "failed" }, error.message));
  }
}

/** A text as it was read: a change of one that somebody else has changed since is refused. */
const where = (one) => ({ id: one.id, collection: one.collection, seen: one.revision });

function edit(one, part, on) {
  const title = h("input", { id: "edit-title", type: "text", value: one.title ?? "", maxlength: 1000, dir: "auto" });
  const tags = h("input", { id: "edit-tags", type: "text", value: (one.tags ?? []).join(", "), dir: "auto" });
  const text = h("textarea", { id: "edit-text", rows: 14, required: true, dir: "auto", value: one.text });
  const fault = h("p", { class: "failed", role: "alert" });
  const save = h("button", { type: "submit", class: "primary" }, "Save");
  const stored = async (event) => {
    event.preventDefault();
    save.disabled = true;
    try {
      await call("save", { ...where(one), title: title.value.trim(), text: text.value, tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean) });
      say("Saved.");
      on.changed();
      openText({ id: where(one).id, collection: one.collection, title: title.value }, on);
    } catch (error) {
      save.disabled = false;
      fault.textContent = error.message;
    }
  };
  frame(
    "Edit",
    one.source && !linkable(one.source) ? h("p", { class: "hint" }, `This text comes from ${one.source}: when that file changes, it replaces what you write here.`) : "",
    h(
      "form",
      { class: "edit", onsubmit: stored },
      h("label", { htmlFor: "edit-title" }, "Title"),
      title,
      h("label", { htmlFor: "edit-tags" }, "Tags, by comma"),
      tags,
      h("label", { htmlFor: "edit-text" }, "Text"),
      text,
      fault,
      h("footer", {}, h("button", { type: "button", onclick: () => show(one, part, on) }, "Cancel"), save),
    ),
  );
  title.focus();
}

function confirmed(one, part, on) {
  const gone = () => {
    $("#passage").close();
    const rows = [...document.querySelectorAll("[data-id]")].filter(({ dataset }) => dataset.id === one.id && dataset.collection === one.collection);
    rows.forEach((row) => (row.hidden = true));
    const remove = () => call("delete", where(one)).then(on.changed, (error) => {
      rows.forEach((row) => (row.hidden = false));
      say(`It was not deleted: ${error.message}`);
    });
    later(`“${clip(one.title || one.text, 40)}” is deleted.`, remove, () => rows.forEach((row) => (row.hidden = false)));
  };
  frame(
    "Delete this text?",
    h("p", { dir: "auto" }, clip(one.title || one.text, 200)),
    h("p", { class: "hint" }, "All of its parts are deleted. You can undo it for a few seconds."),
    h(
      "footer",
      {},
      h("button", { type: "button", onclick: () => show(one, part, on) }, "Cancel"),
      h("button", { type: "button", class: "danger", onclick: gone }, "Delete"),
    ),
  );
}

async function move(one, to, on) {
  try {
    const done = await call("move", { ...where(one), to });
    say(`Moved to ${done.collection}.`);
    on.changed();
    on.open({ id: done.id, collection: done.collection, title: one.title });
  } catch (error) {
    say(error.message);
  }
}
