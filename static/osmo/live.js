// Parts of a page with `data-live` and an id follow the changes: after an event of /api/events the same page is fetched
// again and those parts are replaced where they differ. Focus, selection, scroll position, input and folded rows stay.
// `data-live-about="workflow/a pool/team"` limits the events to objects of these names, or of kinds such as "workflow".
// What is marked `data-live-keep` stays as it is; charts.js draws charts anew. `data-live-every="2"` asks for a refresh every 2 seconds,
// for progress that no event announces.
//
// All tabs of a browser share one stream: the tab that holds the lock opens it and passes the events on. Without locks
// (plain HTTP) each visible tab has its own. A page that follows changes late, or not at all, says so in `#oa-live`.
"use strict";

(function () {
  const GATHER = 250; // milliseconds after an event, for the events that come with it
  const MIN_PAUSE = 500; // between two refreshes
  const MAX_PAUSE = 15000;
  const COST = 6; // a page waits for this many times the usual duration of a refresh
  const WITHOUT_EVENTS = 30000; // some changes, such as those of other people's work, are not events for this person
  const REOPEN = 10000;
  const RESUMED = 600000; // after a longer pause a stream begins with what comes
  const BROKEN = 8000; // without a stream, until the page says so; the pause of a crowded server is shorter
  const SETTLED = 1000; // a stream of a crowded server is over sooner
  const NOTES = {
    crowded: "Many pages are open at this moment. This page shows changes a few seconds late.",
    broken: "There is no connection to the server. This page may be out of date.",
    over: "You are signed out, or this page is gone. It does not follow changes any more: reload it.",
  };
  const LOCK = "osmo-events";
  const LAST = "osmo-last-event"; // where the stream of the page before ended, so that nothing between two pages is missed
  const STATE = ["open", "hidden", "aria-expanded", "aria-pressed", "autofocus"]; // attributes that scripts and persons set
  const script = document.currentScript;
  const parts = () => Array.from(document.querySelectorAll("[data-live][id]"));
  if (!parts().length || !window.EventSource || !window.fetch) return;

  let morph = null; // the promise of the library, loaded with the first refresh
  let timer = 0;
  let lastEnd = Date.now(); // of the last refresh; the page itself counts as one
  let usual = 0; // duration of a refresh
  let pause = MIN_PAUSE;
  let isRunning = false;
  let isAsked = false;
  let isOver = false;

  function loadMorph() {
    morph ??= new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = script.dataset.morph;
      element.onload = () => resolve(window.Idiomorph);
      element.onerror = reject;
      document.head.append(element);
    });
    return morph;
  }

  // Rows are matched by id, so that a row keeps its node (and its focus) when others come and go.
  function nameRows(part) {
    const seen = new Set(Array.from(part.querySelectorAll("[id]"), (element) => element.id));
    for (const row of part.querySelectorAll("tbody > tr:not([id]), li:not([id])")) {
      const link = row.querySelector("a[href]");
      const id = `${part.id}:${link ? link.getAttribute("href") : row.querySelector("th")?.textContent.trim()}`;
      if (seen.has(id)) continue;
      seen.add(id);
      row.id = id;
    }
  }

  const callbacks = {
    beforeNodeRemoved: (node) => !(node instanceof Element && node.matches("[data-live-keep]")), // made by a script
    beforeAttributeUpdated: (name) => !STATE.includes(name),
    beforeNodeMorphed(old, fresh) {
      if (old instanceof Element && old.matches("[data-live-keep]")) return false; // drawn by a script
      if (old instanceof HTMLInputElement || old instanceof HTMLSelectElement || old instanceof HTMLTextAreaElement) return false;
      if (old instanceof HTMLTimeElement && old.dateTime === fresh.dateTime) return false;
      return !old.isEqualNode?.(fresh);
    },
  };

  async function refresh() {
    isRunning = true;
    isAsked = false;
    const begin = Date.now();
    try {
      const [library, answer] = await Promise.all([loadMorph(), fetch(window.location.href, { headers: { Accept: "text/html" }, cache: "no-store" })]);
      if (answer.redirected || answer.status === 403 || answer.status === 404) {
        isOver = true; // signed out, or the page is gone: what is shown stays
        tell("over");
        return;
      }
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts()) {
        const fresh = page.getElementById(part.id);
        if (!fresh) continue;
        nameRows(part);
        nameRows(fresh);
        library.morph(part, fresh, { morphStyle: "outerHTML", ignoreActiveValue: true, restoreFocus: true, callbacks });
      }
      document.dispatchEvent(new CustomEvent("osmo:refreshed"));
    } catch (problem) {
      // The server does not answer now: the next event or the next interval tries again.
      if (!(problem instanceof TypeError)) throw problem;
    } finally {
      lastEnd = Date.now();
      const duration = lastEnd - begin;
      usual = usual ? (3 * usual + duration) / 4 : duration;
      pause = Math.min(Math.max(MIN_PAUSE, COST * Math.min(duration, usual)), MAX_PAUSE); // one slow answer should not make it wait
      isRunning = false;
      if (isAsked) ask();
    }
  }

  function ask() {
    isAsked = true;
    if (isRunning || isOver || document.hidden || timer) return;
    timer = window.setTimeout(() => {
      timer = 0;
      refresh();
    }, Math.max(GATHER, lastEnd + pause - Date.now()));
  }

  function isAbout(object) {
    return parts().some((part) => {
      const about = (part.dataset.liveAbout || "").split(" ").filter(Boolean);
      return !about.length || about.some((name) => object === name || object.startsWith(`${name}/`) || object.startsWith(`${name}--`));
    });
  }

  function take(object) {
    if (isAbout(object)) ask();
  }

  // --- what the page says ---
  const note = document.getElementById("oa-live");
  let state = "";

  function tell(fresh) {
    if (state === fresh || (isOver && fresh !== "over")) return;
    state = fresh;
    document.documentElement.dataset.live = state;
    if (!note) return;
    note.textContent = NOTES[state] || "";
    note.hidden = !note.textContent;
  }

  // --- the stream ---
  const channel = window.BroadcastChannel ? new BroadcastChannel("osmo-events") : null;
  let source = null;
  let found = ""; // the state of the stream
  let broken = 0; // timers
  let settled = 0;
  let leave = null; // ends the hold of the lock

  function lastEvent() {
    try {
      const [id, time] = (window.localStorage.getItem(LAST) || "").split(" ");
      return Date.now() - Number(time) < RESUMED ? id : "";
    } catch {
      return "";
    }
  }

  function remember(id) {
    try {
      if (id) window.localStorage.setItem(LAST, `${id} ${Date.now()}`);
    } catch {
      // the first events of the next page may be missed
    }
  }

  function forget() {
    try {
      window.localStorage.removeItem(LAST);
    } catch {
      // nothing is remembered then
    }
  }

  function open() {
    source = new EventSource(`${script.dataset.events}?last_event_id=${lastEvent()}`);
    source.onopen = () => {
      window.clearTimeout(broken);
      broken = 0;
      if (state === "crowded") settled = window.setTimeout(tellAll, SETTLED, "on");
      else tellAll("on");
    };
    source.addEventListener("crowded", () => tellAll("crowded"));
    source.onmessage = (event) => {
      remember(event.lastEventId);
      const { object } = JSON.parse(event.data);
      take(object);
      channel?.postMessage(object);
    };
    source.onerror = () => {
      window.clearTimeout(settled);
      broken ||= window.setTimeout(tellAll, BROKEN, "broken");
      if (source?.readyState !== EventSource.CLOSED || isOver) return;
      forget(); // the server refuses a place that it does not have, as after a restore
      window.setTimeout(() => {
        if (!source) return;
        open();
        ask(); // for what was missed
      }, REOPEN);
    };
  }

  function tellAll(fresh) {
    found = fresh;
    tell(fresh);
    channel?.postMessage({ state: fresh });
  }

  function close() {
    window.clearTimeout(broken);
    window.clearTimeout(settled);
    broken = 0;
    source?.close();
    source = null;
    leave?.();
    leave = null;
  }

  function follow() {
    if (channel && navigator.locks) {
      // Another tab may lead already.
      navigator.locks.query().then(({ held }) => {
        if (source || !held.some((lock) => lock.name === LOCK)) return;
        tell("on");
        channel.postMessage({ asks: true });
      });
      channel.onmessage = ({ data }) => {
        if (typeof data === "string") take(data);
        else if (data.state) tell(data.state);
        else if (source) channel.postMessage({ state: found });
      };
      const stop = new AbortController();
      const held = new Promise((resolve) => {
        leave = () => {
          stop.abort();
          resolve();
        };
      });
      const lead = () => {
        open();
        return held;
      };
      navigator.locks.request(LOCK, { signal: stop.signal }, lead).catch(() => {});
    } else if (!document.hidden) {
      open();
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isAsked) ask();
    if (!navigator.locks || !channel) {
      if (document.hidden) close();
      else if (!source) follow();
    }
  });
  // An open stream keeps a page out of the cache of "back".
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) {
      follow();
      ask();
    }
  });
  window.setInterval(() => {
    const wanted = parts().map((part) => Number(part.dataset.liveEvery || 0) * 1000).filter(Boolean);
    const quiet = Math.max(Math.min(WITHOUT_EVENTS, ...wanted), pause);
    if (!document.hidden && !isRunning && Date.now() - lastEnd >= quiet) ask();
  }, 1000);
  follow();
})();
