// The quota tree: children of a node are collapsed and expanded. Without this script the whole tree is shown.
"use strict";

(function () {
  const table = document.querySelector("[data-tree]");
  if (!table) return;
  const rows = Array.from(table.querySelectorAll("tr[data-node]"));
  const byNode = new Map(rows.map((row) => [row.dataset.node, row]));
  const folds = new Map();

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
    const fold = folds.get(row);
    if (fold) fold.setAttribute("aria-expanded", String(open));
  }

  function move(from, step) {
    const visible = rows.filter((row) => !row.hidden && folds.has(row));
    const next = visible[visible.indexOf(from) + step];
    if (next) folds.get(next).focus();
  }

  for (const row of rows) {
    const fold = row.querySelector(".oa-fold");
    if (!fold) continue;
    folds.set(row, fold);
    fold.hidden = false;
    set(row, !("closed" in row.dataset));
    fold.addEventListener("click", () => {
      set(row, !isOpen(row));
      draw();
    });
    fold.addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
        set(row, event.key === "ArrowRight");
        draw();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        move(row, event.key === "ArrowDown" ? 1 : -1);
      } else {
        return;
      }
      event.preventDefault();
    });
  }
  for (const button of document.querySelectorAll("[data-tree-all]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      for (const row of rows) set(row, button.dataset.treeAll === "open");
      draw();
    });
  }
  // An address that names a node expands the path to it.
  let target = byNode.get(decodeURIComponent(window.location.hash.slice(1)));
  while (target && (target = byNode.get(target.dataset.parent))) set(target, true);
  draw();
})();
