// One stored text in full, in a dialog.

import { call } from "./api.js";
import { $, h, marked } from "./dom.js";

/** Only addresses of the web are links; a text may hold anything. */
export function linkable(source) {
  try {
    return ["http:", "https:"].includes(new URL(source).protocol);
  } catch {
    return false;
  }
}

function frame(title, ...body) {
  const dialog = $("#passage");
  dialog.replaceChildren(
    h(
      "header",
      {},
      h("h2", { id: "passage-title" }, title),
      h("button", { type: "button", class: "icon close", "aria-label": "Close", onclick: () => dialog.close() }, "×"),
    ),
    ...body,
  );
  if (!dialog.open) dialog.showModal();
}

/** A value of the metadata as a person writes it. */
function readable(value) {
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function details(one) {
  const rows = [
    ["Collection", one.collection],
    ["Part", one.part],
    ["Tags", one.tags?.join(", ")],
    ["Created", one.created_at],
    ["Source", one.source],
    ["Id", one.id],
    ...Object.entries(one.metadata ?? {}).map(([name, value]) => [
      name,
      readable(value),
    ]),
  ].filter(([, value]) => value);
  return h(
    "dl",
    {},
    rows.map(([name, value]) =>
      h(
        "div",
        {},
        h("dt", {}, name),
        h(
          "dd",
          {},
          name === "Source" && linkable(value)
            ? h("a", { href: value, target: "_blank", rel: "noopener noreferrer" }, value)
            : value,
        ),
      ),
    ),
  );
}

/** Opens the text of a point; a failure is said where the text would be. */
export async function openPassage({ id, collection, title }, query) {
  frame(title || "Passage", h("p", { class: "loading" }, "Loading the text…"));
  const show = async (neighbours) => {
    const answer = await call("text", { id, collection, neighbours });
    const [one] = answer.documents;
    const link = linkable(one.source)
      ? h("a", { class: "button", href: one.source, target: "_blank", rel: "noopener noreferrer" }, "Open the source")
      : null;
    const around =
      one.part && !neighbours
        ? h("button", { type: "button", onclick: () => show(2).catch(failed) }, "Show the text around it")
        : null;
    frame(
      one.title || title || "Passage",
      details(one),
      h("div", { class: "text", tabIndex: 0, role: "region", "aria-label": "Text" }, marked(one.text, query)),
      h("footer", {}, around, link),
    );
  };
  const failed = (error) => frame(title || "Passage", h("p", { class: "failed", role: "alert" }, error.message));
  await show(0).catch(failed);
}
