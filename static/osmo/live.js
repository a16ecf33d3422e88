// Parts of a page with `data-live` and an id follow the changes: after an event of /api/events the same page is fetched
// again and those parts are replaced where they differ. Focus, selection, scroll position, input and folded rows stay.
// `data-live-about="workflow/a pool/team"` limits the events to objects of these names, or of kinds such as "workflow".
// Charts and what is marked `data-live-keep` stay as they are. `data-live-every="2"` asks for a refresh every 2 seconds,
// for progress that no event announces.
//
// All tabs of a browser share one stream: the tab that holds the lock opens it and passes the events on. Without locks
// (plain HTTP) each visible tab has its own.
"use strict";

(function () {
  const GATHER = 250; // milliseconds after an event, for the events that come with it
  const MIN_PAUSE = 500; // between two refreshes
  const MAX_PAUSE = 15000;
  const COST = 6; // a page waits for this many times the usual duration of a refresh
  const WITHOUT_EVENTS = 30000; // some changes, such as those of other people's work, are no events for this person
  const REOPEN = 10000;
  const RESUMED = 600000; // after a longer pause a stream begins with what comes
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
      if (old instanceof Element && old.matches("[data-live-keep], [data-plot]")) return false; // drawn by a script
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
      pause = Math.min(Math.max(MIN_PAUSE, COST * Math.min(duration, usual)), MAX_PAUSE); // one slow answer is no reason to wait
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

  // --- the stream ---
  const channel = window.BroadcastChannel ? new BroadcastChannel("osmo-events") : null;
  let source = null;
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

  function open() {
    source = new EventSource(`${script.dataset.events}?last_event_id=${lastEvent()}`);
    source.onopen = () => {
      document.documentElement.dataset.live = "on";
    };
    source.onmessage = (event) => {
      remember(event.lastEventId);
      const { object } = JSON.parse(event.data);
      take(object);
      channel?.postMessage(object);
    };
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED && !isOver) window.setTimeout(() => source && open(), REOPEN);
    };
  }

  function close() {
    source?.close();
    source = null;
    leave?.();
    leave = null;
  }

  function follow() {
    if (channel && navigator.locks) {
      // Another tab may lead already.
      navigator.locks.query().then(({ held }) => {
        if (!source && held.some((lock) => lock.name === LOCK)) document.documentElement.dataset.live = "on";
      });
      channel.onmessage = (event) => take(event.data);
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
    const asked = parts().map((part) => Number(part.dataset.liveEvery || 0) * 1000).filter(Boolean);
    const quiet = Math.max(Math.min(WITHOUT_EVENTS, ...asked), pause);
    if (!document.hidden && !isRunning && Date.now() - lastEnd >= quiet) ask();
  }, 1000);
  follow();
})();
