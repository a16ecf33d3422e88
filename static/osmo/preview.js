// The form of a change. Its effect stands beside it on wide screens, from the address of its preview, after a pause of
// typing. Back shows the form with its input: when it is sent, its input is written into its own address, in which the
// server looks for first values. Secrets and files are left out, and the longest texts where the address would become
// too long; “Change the input” on the preview brings these back as well.
"use strict";

(function () {
  const MAX_LENGTH = 6000; // characters, as of the address of a preview
  const PAUSE = 400; // milliseconds after the last key
  const OURS = ["csrfmiddlewaretoken", "step", "seen", "version"];
  const PREVIEW = "/-/preview"; // as PREVIEW_SEGMENT in pools/domain/page_addresses.py
  const address = window.location.pathname;
  const formAddress = address.endsWith(PREVIEW) ? address.slice(0, -PREVIEW.length) : address; // a refused preview is a form, too

  function isSecret(form, name) {
    const field = form.elements.namedItem(name);
    return field instanceof Element && (field.type === "password" || "secret" in field.dataset);
  }

  function typedIn(form) {
    return Array.from(new FormData(form)).filter(([name, text]) => typeof text === "string" && !OURS.includes(name) && !isSecret(form, name));
  }

  function queryOf(form) {
    const typed = typedIn(form);
    let query = new URLSearchParams(typed).toString();
    while (query.length > MAX_LENGTH) {
      typed.splice(typed.reduce((longest, [, text], index) => (text.length > typed[longest][1].length ? index : longest), 0), 1);
      query = new URLSearchParams(typed).toString();
    }
    return query;
  }

  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || !event.target.matches("form[data-typed]")) return;
    window.history.replaceState(window.history.state, "", `${formAddress}?${queryOf(event.target)}`);
  });

  // A field that decides which others the form has: the form of its new value, with the rest of the input.
  document.addEventListener("change", (event) => {
    const { decides, decided } = event.target.dataset;
    if (!decides || JSON.stringify(JSON.parse(decides)[event.target.value]) === JSON.stringify(JSON.parse(decided))) return;
    window.location.assign(`${formAddress}?${queryOf(event.target.form)}#${event.target.id}`);
  });

  const form = document.querySelector("form[data-effect]");
  const panel = document.getElementById("oa-effect");
  const said = document.getElementById("oa-effect-said");
  if (!form || !panel || !window.matchMedia("(min-width: 1280px)").matches) return;
  document.querySelector(".oa-beside").classList.add("oa-beside--wide");
  const first = new URLSearchParams(typedIn(form)).toString();
  const now = Array.from(panel.childNodes);
  const left = new Set(); // the names of the fields in which the person was
  let asked = null;
  let timer = 0;

  function say(text) {
    said.textContent = text;
  }

  function showNow() {
    panel.replaceChildren(...now);
    say("");
  }

  function showNote(...texts) {
    const note = document.createElement("div");
    note.className = "oa-note oa-note--warn";
    note.append(...texts.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
    panel.replaceChildren(note);
    say(texts.join(" "));
  }

  // A field that is empty because the person has not come to it.
  function isToCome(fault) {
    const name = fault.closest(".oa-field")?.querySelector("[name]")?.name;
    return Boolean(name) && !left.has(name) && form.elements[name]?.value === "";
  }

  // What a refused form says: each fault with the label of its field. None if only fields to come are missing.
  function faultsOf(page) {
    const all = Array.from(page.querySelectorAll("form[data-typed] .oa-fault"));
    const present = all.filter((fault) => !isToCome(fault));
    if (all.length && !present.length) return null;
    const texts = present.map((fault) => {
      const label = fault.closest(".oa-field")?.querySelector("label")?.firstChild?.textContent.trim() || "";
      const text = fault.textContent.trim();
      return !label || text.includes(`“${label}`) ? text : `${label}: ${text}`;
    });
    const above = Array.from(page.querySelectorAll(".oa-note--bad p"), (part) => part.textContent.trim());
    return texts.length ? texts : above;
  }

  function showEffect(page) {
    const parts = Array.from(page.querySelector("#oa-main").children);
    for (const part of parts) {
      for (const left of part.querySelectorAll("button[value=edit], a.oa-button")) left.remove();
      for (const element of part.querySelectorAll("[autofocus]")) element.removeAttribute("autofocus");
    }
    panel.replaceChildren(...parts.map((part) => document.importNode(part, true)));
    document.dispatchEvent(new Event("osmo:refreshed"));
    const notes = Array.from(panel.querySelectorAll(".oa-note"), (note) => note.textContent.trim().replace(/\s+/g, " "));
    say(`Effect of this change: ${notes.join(" ")}`);
  }

  async function ask(isBack) {
    const query = new URLSearchParams(typedIn(form)).toString();
    if (query === first) return showNow();
    if (query.length > MAX_LENGTH) return showNote("The input is too long to show its effect here. Preview shows it on a page of its own.");
    const call = (asked = new AbortController());
    try {
      const answer = await fetch(`${formAddress}${PREVIEW}?${query}`, { signal: call.signal, redirect: "error", headers: { "X-Effect-Beside": isBack ? "back" : "typing" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (call !== asked) return undefined;
      const faults = faultsOf(page);
      if (answer.ok && page.querySelector("#effect-title, #done-title")) showEffect(page);
      else if (!faults) showNow();
      else showNote(...(faults.length ? faults : ["The effect cannot be shown now. Preview shows it on a page of its own."]));
    } catch (fault) {
      if (fault.name === "AbortError" || call !== asked) return undefined;
      showNote("The effect cannot be shown now. Preview shows it on a page of its own.");
    } finally {
      if (call === asked) panel.removeAttribute("aria-busy");
    }
    return undefined;
  }

  // Until the effect of the present input is there, the button of an earlier one must not be pressed.
  function wait(pause, isBack = false) {
    window.clearTimeout(timer);
    asked?.abort();
    for (const button of panel.querySelectorAll("button")) button.disabled = true;
    panel.setAttribute("aria-busy", "true");
    timer = window.setTimeout(ask, pause, isBack);
  }

  form.addEventListener("input", () => wait(PAUSE));
  form.addEventListener("focusout", ({ target }) => left.add(target.name));
  form.addEventListener("submit", () => panel.replaceChildren());
  window.addEventListener("pageshow", (event) => {
    if (event.persisted || form.dataset.effect === "at once") wait(0, event.persisted);
  });
})();
