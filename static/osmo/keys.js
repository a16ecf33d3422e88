// Keys for every page: Ctrl-K searches, "/" goes to the filter, "?" shows the keys. Without this script the search box
// of the head is a form that leads to the page of results.
"use strict";

(function () {
  const WAIT = 120; // milliseconds after a key, before the request to the server
  const MOST = 25; // results
  const form = document.querySelector("[data-search]");
  const keys = document.getElementById("oa-keys");
  const input = form?.querySelector("input[type=search]");
  const list = form?.querySelector("[role=listbox]");

  function isTyping(target) {
    return target instanceof Element && target.closest("input:not([type=checkbox]):not([type=radio]), select, textarea, [contenteditable]");
  }

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k" && input) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) {
      // a key for the browser or for a field
    } else if (event.key === "/") {
      const filter = document.querySelector("main form[role=search] input:not([type=hidden]), main form[role=search] select") || input;
      if (!filter) return;
      event.preventDefault();
      filter.focus();
      filter.select?.();
    } else if (event.key === "?" && keys?.showModal) {
      event.preventDefault();
      keys.showModal();
    }
  });
  document.querySelector("[data-show-keys]")?.addEventListener("click", () => keys?.showModal());
  if (!form || !input || !list) return;

  let timer = 0;
  let latest = 0;
  let chosen = -1;

  function close() {
    list.hidden = true;
    list.replaceChildren();
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(index) {
    const options = list.querySelectorAll("a[role=option]");
    if (!options.length) return;
    chosen = (index + options.length) % options.length;
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === chosen)));
    options[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", options[chosen].id);
  }

  function show(hits, text) {
    list.replaceChildren();
    for (const [index, hit] of hits.entries()) {
      const option = document.createElement("a");
      option.id = `oa-hit-${index}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.tabIndex = -1;
      option.href = hit.page;
      const name = document.createElement("span");
      name.textContent = hit.name;
      const detail = document.createElement("span");
      detail.className = "oa-quiet";
      detail.textContent = hit.detail;
      option.append(name, detail);
      list.append(option);
    }
    if (!hits.length) {
      const none = document.createElement("p");
      none.className = "oa-quiet";
      none.setAttribute("role", "option");
      none.setAttribute("aria-disabled", "true");
      none.textContent = `No name has “${text}”.`;
      list.append(none);
    }
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    chosen = -1;
    if (hits.length) choose(0);
  }

  async function ask() {
    const text = input.value.trim();
    const number = ++latest;
    if (!text) {
      close();
      return;
    }
    try {
      const answer = await fetch(`${form.dataset.search}?q=${encodeURIComponent(text)}`, { headers: { Accept: "application/json" } });
      const { results } = answer.ok ? await answer.json() : { results: [] };
      if (number === latest) show(results.slice(0, MOST), text); // the best come first
    } catch {
      if (number === latest) close(); // the server does not answer; Enter opens the page of results
    }
  }

  input.addEventListener("input", () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(ask, WAIT);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      close();
      input.blur();
    } else if (list.hidden) {
      // Enter opens the page of results
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      list.querySelectorAll("[role=option]")[chosen].click();
    }
  });
  form.addEventListener("focusout", (event) => {
    if (!form.contains(event.relatedTarget)) close();
  });
})();
