// Calls to the server. Every failure is an Error with one sentence to show.

const TOKEN = "viz-token";

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

/** Posts JSON to the page's own server and returns its JSON answer. */
export async function call(name, asked = {}, signal = undefined) {
  const headers = { "Content-Type": "application/json", "X-Requested-With": "mcp-server-qdrant" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response;
  try {
    response = await fetch(`viz/api/${name}`, {
      method: "POST",
      headers,
      body: JSON.stringify(asked),
      keepalive: name === "delete", // even if the page is closed
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The server does not answer. The page tries again every few seconds.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new Refused(response.status, sentence(response.status, answer));
}

function sentence(status, answer) {
  if (status === 401) return token.get() ? "This server does not accept that access token." : "This server requires an access token.";
  return answer.error_description ?? answer.error ?? `The server failed (${status}). Try again.`;
}
