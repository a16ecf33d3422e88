// The number in the row of a subpool: the effect of another quota stands below the row after a pause of typing, with
// the button that confirms it, from the page of the preview. Enter goes to that page, as it does without this script.
"use strict";

(function () {
  const PAUSE = 400; // milliseconds after the last key
  let timer = 0;
  let asked = null;

  function close() {
    window.clearTimeout(timer);
    asked?.abort();
    document.getElementById("oa-resize")?.remove();
  }

  // The numbers that change, as "detect: Quota 24 → 20".
  function changesOf(page) {
    return Array.from(page.querySelectorAll("main tr:has(.oa-changed)"), (row) => {
      const cells = Array.from(row.querySelectorAll("td:has(.oa-changed)"), (cell) => `${cell.dataset.label} ${cell.textContent.trim().replace("→", " → ")}`);
      return `${row.querySelector("th").textContent.trim()}: ${cells.join(", ")}`;
    });
  }

  // The texts and the confirmation of the preview's page, below the row.
  function show(row, address, page) {
    const confirm = Array.from(page.querySelectorAll("form")).find((form) => form.querySelector("button[name=step]:is([value=confirm], [value=ask])"));
    const texts = page.querySelectorAll(confirm ? "main .oa-note p" : "main .oa-fault, main .oa-note p");
    const below = Object.assign(document.createElement("tr"), { id: "oa-resize" });
    below.dataset.liveKeep = "";
    const cell = below.appendChild(Object.assign(document.createElement("td"), { colSpan: row.cells.length }));
    const said = cell.appendChild(document.createElement("div"));
    said.setAttribute("role", "status");
    const lines = [...Array.from(texts, (text) => text.textContent.trim()), ...(confirm ? changesOf(page) : [])];
    said.append(...lines.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
    if (confirm) {
      for (const left of confirm.querySelectorAll("button[value=edit], a.oa-button")) left.remove();
      const form = cell.appendChild(document.importNode(confirm, true));
      form.append(Object.assign(document.createElement("a"), { href: address, textContent: "Whole effect" }));
      form.append(Object.assign(document.createElement("a"), { href: address.replace("/-/preview", ""), textContent: "Until a time" }));
    }
    row.after(below);
  }

  async function ask(form, row) {
    const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
    const call = (asked = new AbortController());
    try {
      const answer = await fetch(address, { signal: call.signal, redirect: "error", headers: { "X-Effect-Beside": "1" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (call === asked && row.isConnected) show(row, address, page);
    } catch {
      // The button in the row still leads to the preview.
    }
  }

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-resize]");
    if (!form) return;
    close();
    const number = form.elements.quota;
    if (number.value.trim() !== "" && number.value !== number.defaultValue) timer = window.setTimeout(() => ask(form, form.closest("tr")), PAUSE);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  document.addEventListener("submit", (event) => {
    if (event.target.matches("form[data-resize]")) close();
  });
})();
