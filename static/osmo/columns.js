// The choice of columns of a table with `data-columns="NAME"`: a box for each column behind the one that names the row,
// kept in this browser.
// Columns with `data-extra` are left out where no row has anything in them, and, the last one first, where the table is
// wider than its place; with `data-extra="always"`, everywhere. On phones CSS chooses (`oa-aside`).
// Without this script all are shown.
"use strict";

(function () {
  const table = document.querySelector("table[data-columns]");
  if (!table) return;
  const name = table.dataset.columns;
  const key = `osmo-columns-${name}`;
  const place = table.closest(".oa-scroll") || table.parentElement;
  let left = new Set(); // the labels of the extra columns that are left out now
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
  const isShown = ({ label }) => chosen[label] ?? !left.has(label);

  function isEmpty({ index }) {
    const rows = Array.from(table.querySelectorAll("tbody > tr")).filter((row) => row.children.length > index);
    return rows.every((row) => /^[\s–]*$/.test(row.children[index].textContent));
  }

  function leaveOut({ index }) {
    sheet.insertRule(`table[data-columns="${name}"] tr > :nth-child(${index + 1}):not([colspan]) { display: none !important; }`);
  }

  // The last column that is shown keeps a distance from the edge.
  function showEdge(every) {
    const last = every.filter(isShown).pop();
    if (last) sheet.insertRule(`@media (min-width: 761px) { table[data-columns="${name}"] tr > :nth-child(${last.index + 1}):not([colspan]) { padding-right: .75rem !important; } }`);
  }

  function draw() {
    while (sheet.cssRules.length) sheet.deleteRule(0);
    left = new Set();
    const every = columns();
    for (const column of every) if (chosen[column.label] === false) leaveOut(column);
    showEdge(every);
    const extras = every.filter(({ label, extra }) => extra !== undefined && !(label in chosen)).reverse();
    const goesFirst = extras.filter((column) => column.extra === "always" || isEmpty(column));
    for (const column of new Set([...goesFirst, ...extras])) {
      if (!goesFirst.includes(column) && place.scrollWidth <= place.clientWidth) break;
      left.add(column.label);
      leaveOut(column);
      showEdge(every);
    }
    table.toggleAttribute("data-fits", place.scrollWidth <= place.clientWidth); // else its place scrolls, not the page
    for (const box of list.querySelectorAll("input")) box.checked = isShown(columns().find(({ label }) => label === box.value) || {});
  }

  const list = document.createElement("details");
  list.className = "oa-pop oa-pop--end";
  list.dataset.liveKeep = "";
  list.append(Object.assign(document.createElement("summary"), { className: "oa-button oa-button--small", textContent: "Columns" }));
  const boxes = list.appendChild(Object.assign(document.createElement("fieldset"), { className: "oa-pop__body" }));
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
  let width = 0;
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    draw();
  }).observe(place);
  document.addEventListener("osmo:refreshed", draw);
})();
