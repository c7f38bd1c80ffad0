// Shows the server's explanation why a text is not among the results of the search.

import { call } from "./api.js";
import { h } from "./dom.js";
import { asked } from "./state.js";

/** Shows the server's sentences on a text that may be missing from the results. */
export async function showWhy(holder, { id, collection }) {
  holder.replaceChildren(h("p", { class: "loading" }, "Searching without each limit…"));
  try {
    const { said } = await call("why", { search: asked(), id, collection });
    holder.replaceChildren(h("h3", { class: "subhead" }, "Why not?"), h("ul", { class: "why-not" }, said.map((sentence) => h("li", {}, sentence))));
  } catch (error) {
    holder.replaceChildren(h("p", { class: "failed" }, error.message));
  }
}
