"use strict";
/* What the server tells, event by event. A browser's own EventSource cannot send a header, and the token must not be in an address or a cookie. */

const RETRY_MS = 1000;
const QUIET_MS = 40000; // the server says something every 15 s
const TOKEN = "skytide-token";
let token = null;
let listener = null; // what ends the present one

/* The token comes after "#", which a browser sends nowhere; it is kept for this address and port only, as long as the tab is open. */
function takeToken() {
  const given = /^#token=(.+)$/.exec(location.hash);
  try {
    if (given) sessionStorage.setItem(TOKEN, decodeURIComponent(given[1]));
    token = sessionStorage.getItem(TOKEN);
  } catch {
    if (given) token = decodeURIComponent(given[1]); // no storage: until the page is loaded again
  }
  if (given) history.replaceState(null, "", location.pathname);
  return Boolean(given);
}

function headers() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/* Listens for ever, in place of an earlier listener; after a loss, asks for what came since the event that is known. */
async function listen(hearer) {
  if (listener) listener.abort();
  const mine = (listener = new AbortController());
  const state = { known: "" };
  while (!mine.signal.aborted) {
    const ended = await read(mine.signal, state, hearer);
    if (mine.signal.aborted) return;
    if (ended === "refused") return hearer.refused();
    hearer.lost();
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

/* Reads events until the connection ends, and returns how it did. */
async function read(signal, state, hearer) {
  const connection = new AbortController(), end = () => connection.abort();
  signal.addEventListener("abort", end);
  let quiet = setTimeout(end, QUIET_MS);
  try {
    const last = state.known ? { "Last-Event-ID": state.known } : {};
    const answer = await fetch("/events", { headers: { ...headers(), ...last }, signal: connection.signal, cache: "no-store" });
    if (answer.status === 403) return "refused";
    if (!answer.ok) return "lost";
    hearer.opened();
    const chunks = answer.body.getReader(), text = new TextDecoder();
    for (let rest = ""; ; ) {
      const { value, done } = await chunks.read();
      if (done) return "lost";
      clearTimeout(quiet);
      quiet = setTimeout(end, QUIET_MS);
      const events = (rest + text.decode(value, { stream: true })).split("\n\n");
      rest = events.pop();
      for (const event of events) hear(event, state, hearer);
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw error; // not the connection's fault
    return "lost";
  } finally {
    clearTimeout(quiet);
    signal.removeEventListener("abort", end);
  }
}

/* Takes in an event; a comment is only a sign of life. */
function hear(event, state, hearer) {
  const fields = Object.fromEntries(event.split("\n").map((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]));
  if (!fields.data) return;
  hearer.heard(fields.event, JSON.parse(fields.data));
  state.known = fields.id;
}
