// Boxes of a date and a time in the zone of the browser: a hidden input of the same name sends the moment in UTC. A person
// who chose UTC for the times of pages types UTC. Without this script the boxes are in UTC, and say so.
"use strict";

(function () {
  if (document.documentElement.dataset.moments) return; // a form may have several boxes, each with this script
  document.documentElement.dataset.moments = "";
  const EVENING = 20;
  const FRIDAY = 5;
  const WEEK_END = 18;

  function isUtc() {
    try {
      return window.localStorage.getItem("osmo-times") === "utc";
    } catch {
      return false;
    }
  }

  const zone = isUtc() ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

  // What the box shows of a moment, to the minute.
  function boxText(moment) {
    const shifted = isUtc() ? moment : new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000);
    return shifted.toISOString().slice(0, 16);
  }

  function momentOf(text) {
    return new Date(isUtc() ? `${text}Z` : text);
  }

  function at(daysAhead, hour) {
    const day = new Date();
    if (isUtc()) {
      day.setUTCDate(day.getUTCDate() + daysAhead);
      day.setUTCHours(hour, 0, 0, 0);
    } else {
      day.setDate(day.getDate() + daysAhead);
      day.setHours(hour, 0, 0, 0);
    }
    return day;
  }

  // The next evenings and ends of weeks that are still to come.
  function choices() {
    const now = new Date();
    const today = isUtc() ? now.getUTCDay() : now.getDay();
    const toFriday = (FRIDAY - today + 7) % 7;
    const friday = at(toFriday, WEEK_END);
    const found = [["Tonight", at(0, EVENING)], ["Friday", friday > now ? friday : at(toFriday + 7, WEEK_END)], ["In a week", at(7, WEEK_END)]];
    return found.filter(([, moment]) => moment > now);
  }

  for (const box of document.querySelectorAll("input[data-moment]")) {
    const sent = document.createElement("input");
    Object.assign(sent, { type: "hidden", name: box.name });
    box.removeAttribute("name");
    box.after(sent);
    if (box.value) box.value = boxText(new Date(`${box.value}Z`));
    const field = box.closest(".oa-field");
    for (const part of field?.querySelectorAll("[data-unit]") || []) part.textContent = part.textContent.replace("UTC", zone);

    // A half-typed date must not count as none.
    function note() {
      sent.value = box.value ? `${momentOf(box.value).toISOString().slice(0, 16)}Z` : box.validity.badInput ? "incomplete" : "";
    }

    for (const kind of ["input", "keyup", "blur"]) box.addEventListener(kind, note); // a half-typed date fires no "input"
    box.form?.addEventListener("submit", note);
    box.form?.addEventListener("reset", () => window.setTimeout(note));
    note();
    const row = document.querySelector(`[data-choices="${box.id}"]`);
    if (!row) continue;
    for (const [words, moment] of choices()) {
      const button = document.createElement("button");
      const hour = boxText(moment).slice(11);
      Object.assign(button, { type: "button", className: "oa-button oa-button--small", textContent: `${words} ${hour}` });
      button.addEventListener("click", () => {
        box.value = boxText(moment);
        box.dispatchEvent(new Event("input", { bubbles: true }));
      });
      row.append(button);
    }
    row.hidden = false;
  }
})();
