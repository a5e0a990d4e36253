// Times in the reader's own zone, parts of pages that refresh themselves, and forms that ask once more.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

function addLocalTimes(root) {
  for (const one of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const at = new Date(one.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    one.dataset.local = zone.format(at);
    one.title = `${one.dataset.local} here`;
    if (at.getTimezoneOffset() !== 0) {
      const local = document.createElement("span");
      local.className = "local";
      local.textContent = ` (${one.dataset.local} here)`;
      one.append(local);
    }
  }
}

let refreshing = false;

async function refresh() {
  // Nothing is taken from somebody's hands: not while he is in a part, nor while nobody looks.
  if (refreshing || document.hidden) return;
  refreshing = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) {
      location.reload();
      return;
    }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-refresh][id], [data-events][id]")) {
      const found = fresh.getElementById(old.id);
      if (!found || old.contains(document.activeElement)) continue;
      const made = document.importNode(found, true);
      addLocalTimes(made);
      old.replaceWith(made);
      listen(made);
    }
  } catch {
    // The gateway is away for a moment; the next time it may be there.
  } finally {
    refreshing = false;
  }
}

const streams = new Map();

function listen(one) {
  const address = one.dataset.events;
  if (!address || streams.has(address)) return;
  const source = new EventSource(address);
  source.addEventListener("message", refresh);
  source.addEventListener("error", () => {
    // Ended for good, as where too many are open: another one may have room later.
    if (source.readyState !== EventSource.CLOSED) return;
    streams.delete(address);
    setTimeout(() => listen(one), 30_000);
  });
  streams.set(address, source);
}

addLocalTimes(document);
const parts = [...document.querySelectorAll("[data-refresh][id], [data-events][id]")];
const seconds = parts.map((one) => Number(one.dataset.refresh)).filter((one) => one >= 5);
if (seconds.length) setInterval(refresh, Math.min(...seconds) * 1000);
parts.forEach(listen);

document.addEventListener("submit", (event) => {
  const question = event.target.dataset?.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

document.addEventListener("change", (event) => {
  if (event.target.matches?.("select[data-submit]")) event.target.form.requestSubmit();
});
