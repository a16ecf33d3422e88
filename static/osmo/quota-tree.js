// The quota tree: children of a node are collapsed and expanded, and stay so on the next visit. Without this script the
// whole tree is shown.
"use strict";

(function () {
  const KEPT = "osmo-folds"; // node -> whether the person left it open
  let rows = [];
  let byNode = new Map();
  let folds = new Map();

  function read() {
    try {
      return JSON.parse(window.localStorage.getItem(KEPT)) || {};
    } catch {
      return {}; // the browser keeps nothing for this site
    }
  }

  const kept = read();

  function keep(row, open) {
    kept[row.dataset.node] = open;
    try {
      window.localStorage.setItem(KEPT, JSON.stringify(kept));
    } catch {
      // the next visit begins as the first one
    }
  }

  function isOpen(row) {
    const fold = folds.get(row);
    return !fold || fold.getAttribute("aria-expanded") === "true";
  }

  // Parents come before their children, so one pass from the top is enough.
  function draw() {
    for (const row of rows) {
      const parent = byNode.get(row.dataset.parent);
      row.hidden = Boolean(parent) && (parent.hidden || !isOpen(parent));
    }
  }

  function set(row, open) {
    folds.get(row)?.setAttribute("aria-expanded", String(open));
  }

  function turn(row, open) {
    set(row, open);
    keep(row, open);
    draw();
  }

  function move(from, step) {
    const visible = rows.filter((row) => !row.hidden && folds.has(row));
    const next = visible[visible.indexOf(from) + step];
    if (next) folds.get(next).focus();
  }

  // The rows of the table as it is now; a refresh of the page may have brought others.
  function gather() {
    const isFiltered = new URLSearchParams(window.location.search).get("q");
    const isNarrow = window.matchMedia("(max-width: 760px)").matches;
    rows = Array.from(document.querySelectorAll("[data-tree] tr[data-node]"));
    byNode = new Map(rows.map((row) => [row.dataset.node, row]));
    folds = new Map();
    for (const row of rows) {
      const fold = row.querySelector(".oa-fold");
      if (!fold) continue;
      folds.set(row, fold);
      fold.hidden = false;
      const isPool = row.dataset.node.startsWith("pool/");
      set(row, isFiltered ? true : (kept[row.dataset.node] ?? !("closed" in row.dataset || (isNarrow && isPool))));
    }
  }

  gather();
  if (!rows.length) return;
  // An address that names a node expands the path to it.
  let target = byNode.get(decodeURIComponent(window.location.hash.slice(1)));
  while (target && (target = byNode.get(target.dataset.parent))) set(target, true);
  draw();

  document.addEventListener("click", (event) => {
    const fold = event.target.closest(".oa-fold");
    const row = fold?.closest("tr");
    if (row && folds.has(row)) turn(row, !isOpen(row));
    const all = event.target.closest("[data-tree-all]");
    if (!all) return;
    for (const each of folds.keys()) {
      set(each, all.dataset.treeAll === "open");
      keep(each, all.dataset.treeAll === "open");
    }
    draw();
  });
  document.addEventListener("keydown", (event) => {
    const row = event.target.closest(".oa-fold")?.closest("tr");
    if (!row || !folds.has(row)) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") turn(row, event.key === "ArrowRight");
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") move(row, event.key === "ArrowDown" ? 1 : -1);
    else return;
    event.preventDefault();
  });
  document.addEventListener("osmo:refreshed", () => {
    gather();
    draw();
  });
  for (const button of document.querySelectorAll("[data-tree-all]")) button.hidden = false;
})();
