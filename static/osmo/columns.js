// The choice of columns of a table with `data-columns="NAME"`: a box for each column behind the one that names the row,
// kept in this browser.
// Columns with `data-extra` are left out at first where the window is narrow; with `data-extra="always"`, everywhere.
// Without this script all are shown.
"use strict";

(function () {
  const table = document.querySelector("table[data-columns]");
  if (!table) return;
  const name = table.dataset.columns;
  const key = `osmo-columns-${name}`;
  const narrow = window.matchMedia("(max-width: 70rem)");
  const sheet = document.head.appendChild(document.createElement("style")).sheet; // rules outlive a refresh of the page

  // The columns after the one that names the row, by the labels that cells carry for phones: { label, index, extra }.
  function columns() {
    const cells = Array.from(table.querySelector("tbody tr")?.children || []);
    const heads = table.querySelectorAll("thead tr:first-child > th");
    const first = cells.findIndex((cell) => cell.matches("th"));
    return cells
      .map((cell, index) => ({ label: cell.dataset.label, index, extra: heads[index]?.dataset.extra }))
      .filter(({ label, index }) => label && index > first);
  }

  function read() {
    try {
      return JSON.parse(window.localStorage.getItem(key)) || {};
    } catch {
      return {}; // the browser keeps nothing for this site
    }
  }

  const chosen = read();
  const isShown = ({ label, extra }) => chosen[label] ?? !(extra === "always" || (extra !== undefined && narrow.matches));

  function draw() {
    while (sheet.cssRules.length) sheet.deleteRule(0);
    for (const column of columns()) {
      if (!isShown(column)) {
        sheet.insertRule(`table[data-columns="${name}"] tr > :nth-child(${column.index + 1}):not([colspan]) { display: none !important; }`);
      }
    }
    for (const box of list.querySelectorAll("input")) box.checked = isShown(columns().find(({ label }) => label === box.value) || {});
  }

  const list = document.createElement("details");
  list.className = "oa-columns-choice";
  list.dataset.liveKeep = "";
  list.append(Object.assign(document.createElement("summary"), { className: "oa-button oa-button--small", textContent: "Columns" }));
  const boxes = list.appendChild(Object.assign(document.createElement("fieldset"), {}));
  boxes.append(Object.assign(document.createElement("legend"), { className: "oa-hidden", textContent: "Columns of the table" }));
  for (const { label } of columns()) {
    const line = boxes.appendChild(document.createElement("label"));
    const box = line.appendChild(Object.assign(document.createElement("input"), { type: "checkbox", value: label }));
    line.append(label);
    box.addEventListener("change", () => {
      chosen[label] = box.checked;
      try {
        window.localStorage.setItem(key, JSON.stringify(chosen));
      } catch {
        // the choice lasts until the next page
      }
      draw();
    });
  }
  if (boxes.children.length < 3) return;
  const tools = table.closest(".oa-card")?.querySelector("[data-list-tools]");
  if (tools) tools.append(list);
  else (table.closest(".oa-scroll") || table).before(list);
  list.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !list.open) return;
    list.open = false;
    list.firstElementChild.focus();
  });
  narrow.addEventListener("change", draw);
  document.addEventListener("osmo:refreshed", draw);
  draw();
})();
