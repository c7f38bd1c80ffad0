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

/** Sets a length that only the numbers know; style attributes are forbidden by the page's policy. */
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

/** Marks the words of the query in a text: nodes, never HTML. */
export function marked(text, query) {
  const words = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{4,}/gu) ?? [])];
  if (!words.length) return [text];
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${words.join("|")})`, "giu");
  return text.split(pattern).map((part, place) => (place % 2 ? h("mark", {}, part) : part));
}
