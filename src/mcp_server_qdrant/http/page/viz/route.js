// The address of what is shown: all of it behind the #, which never reaches a server or its log.

const MANY = ["in", "tag"]; // what may occur several times

/** The route of the address: an object of texts and lists. */
export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const route = {};
  for (const name of given.keys()) route[name] = MANY.includes(name) ? given.getAll(name) : given.get(name);
  return route;
}

export function address(route) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(route)) {
    for (const one of [value].flat()) if (one !== "" && one != null) given.append(name, one);
  }
  return `#${given}`;
}

/** Shows the route in the address, as a step of its own (back leads before it) or in place. */
export function go(route, { step = true } = {}) {
  const to = address(route);
  if (to === location.hash || (to === "#" && !location.hash)) return;
  history[step ? "pushState" : "replaceState"](null, "", to);
}
