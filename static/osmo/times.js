// Times: the ages of the page grow by themselves; a choice in the menu or the key "t" shows exact times, local or UTC.
// A click or a tap on one time shows that one exactly.
"use strict";

(function () {
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]; // as _UNITS in templatetags/osmo.py
  const SOON = 10; // seconds

  function choice() {
    try {
      return window.localStorage.getItem("osmo-times") || "";
    } catch {
      return "";
    }
  }

  function age(seconds) {
    const [size, unit] = UNITS.find(([size]) => seconds >= size) || [1, "s"];
    return `${Math.floor(seconds / size)} ${unit}`;
  }

  function length(seconds) {
    const at = UNITS.findIndex(([size]) => seconds >= size);
    if (at > 1) return age(seconds);
    const [smaller, unit] = UNITS[at + 1]; // from an hour on in two units, as `lasting` in templatetags/osmo.py
    const rest = Math.floor((seconds % UNITS[at][0]) / smaller);
    return rest ? `${age(seconds)} ${rest} ${unit}` : age(seconds);
  }

  // `isLength`: the text says how long something has lasted, and its exact form since when.
  function words(moment, isLength) {
    const seconds = (Date.now() - moment.getTime()) / 1000;
    if (isLength) return length(Math.max(seconds, 1));
    if (Math.abs(seconds) < SOON) return "just now";
    return seconds > 0 ? `${age(seconds)} ago` : `in ${age(-seconds)}`;
  }

  function utc(moment) {
    return `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  }

  function local(moment) {
    const two = (number) => String(number).padStart(2, "0");
    const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
    const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(moment).find((part) => part.type === "timeZoneName");
    return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())} ${zone ? zone.value : ""}`.trim();
  }

  // "Fri 27 Nov 19:00 GMT+1"; of another year with the year.
  function minute(moment, isUtc) {
    const format = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short", ...(isUtc ? { timeZone: "UTC" } : {}) };
    if (moment.getFullYear() !== new Date().getFullYear()) format.year = "numeric";
    const parts = new Intl.DateTimeFormat("en-GB", format).formatToParts(moment);
    const part = (type) => parts.find((each) => each.type === type)?.value || "";
    const year = part("year") ? ` ${part("year")}` : "";
    return `${part("weekday")} ${part("day")} ${part("month")}${year} ${part("hour")}:${part("minute")} ${part("timeZoneName")}`;
  }

  function draw(scope) {
    const chosen = choice();
    for (const element of scope.querySelectorAll("time[data-minute]")) {
      const moment = new Date(element.dateTime);
      const text = minute(moment, chosen === "utc");
      if (element.textContent !== text) element.textContent = text;
      element.title = words(moment, false);
    }
    for (const element of scope.querySelectorAll("time[data-age], time[data-exact]")) {
      const moment = new Date(element.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      const shown = chosen || ("exact" in element.dataset || "shown" in element.dataset ? "utc" : "");
      const isLength = element.dataset.age === "length";
      const since = isLength ? "since " : "";
      const text = shown ? since + (shown === "local" ? local(moment) : utc(moment)) : words(moment, isLength);
      const title = shown ? words(moment, isLength) : since + utc(moment);
      if (element.textContent !== text) element.textContent = text;
      if (element.title !== title) element.title = title;
    }
  }

  document.addEventListener("click", (event) => {
    const element = event.target.closest("time[data-age]");
    if (!element || event.target.closest("a, button, summary, label")) return;
    if ("shown" in element.dataset) delete element.dataset.shown;
    else element.dataset.shown = "";
    draw(element.parentNode);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "t" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const order = ["", "local", "utc"];
    const next = order[(order.indexOf(choice()) + 1) % order.length];
    document.querySelector(`[data-choice=times] button[value="${next}"]`)?.click();
  });
  document.addEventListener("osmo:preference", () => draw(document));
  document.addEventListener("osmo:refreshed", () => draw(document));
  window.setInterval(() => {
    if (!document.hidden) draw(document);
  }, 5000);
  draw(document);
})();
