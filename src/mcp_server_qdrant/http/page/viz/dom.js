// Small helpers: elements, numbers, announcements.

export const $ = (selector, root = document) => root.querySelector(selector);

/** An element with properties (class, dataset, on…, aria-…) and children. Text is never HTML. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.startsWith("aria")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

export const button = (label, act, properties = {}) => h("button", { type: "button", onclick: act, ...properties }, label);

/** Sets a computed length; the page's policy forbids style attributes. */
export function sized(element, property, value) {
  element.style.setProperty(property, value);
  return element;
}

export const fixed = (value, digits = 2) => (value ?? 0).toFixed(digits);
export const percent = (value) => `${Math.round(value * 100)} %`;
export const plural = (count, one, many = `${one}s`) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** Says a sentence to screen readers. */
export function announce(sentence) {
  $("#status").textContent = sentence;
}

/** Redraws a part of the page; the element with the same id keeps the focus. */
export function redraw(holder, ...children) {
  const focused = holder.contains(document.activeElement) && document.activeElement.id;
  holder.replaceChildren(...children);
  if (focused) document.getElementById(focused)?.focus();
}

/** Downloads a file. */
export function download(blob, name) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** The beginning of a text, cut between words. */
export function clip(text, length) {
  if (text.length <= length) return text;
  const cut = text.lastIndexOf(" ", length);
  return `${text.slice(0, cut > length / 2 ? cut : length)}…`;
}

const SECONDS = 8;
let timer = null;

/** Shows at the foot of the page what was done; `undo` works while it is shown. */
export function toast(sentence, undo = null) {
  const hide = () => ($("#toast").hidden = true);
  const back = () => {
    hide();
    undo();
  };
  clearTimeout(timer);
  timer = setTimeout(hide, SECONDS * 1000);
  $("#toast").replaceChildren(h("span", {}, sentence), undo ? button("Undo", back) : "");
  $("#toast").hidden = false;
}

/** The key of a text on the page, the same for all its parts. */
export const key = ({ collection, document, id }) => `${collection}\n${document ?? id}`;

/** The keys of texts that are deleted, or about to be; lists and map hide them. */
export const gone = new Set();
export const there = (one) => !gone.has(key(one));
