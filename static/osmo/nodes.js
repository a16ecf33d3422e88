// The card of a tile on the map of nodes: with the pointer, the keyboard (arrows go from tile to tile, Escape closes) and a
// finger, whose second tap opens the node. Without this script a tile is a link with a title.
"use strict";

(function () {
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  let shown = null; // the tile of the open card
  let timer = 0;
  let touched = null;

  const map = () => document.getElementById("oa-map");
  const card = () => document.getElementById("oa-nodecard");
  const tiles = () => Array.from(map()?.querySelectorAll(".oa-tiles a") || []);
  const tileOf = (target) => (target instanceof Element ? target.closest(".oa-tiles a") : null);
  const nameOf = (tile) => tile.textContent.trim();

  function make(tag, text, address) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (address) made.href = address;
    return made;
  }

  function fill(tile) {
    const [state, work, others] = JSON.parse(document.getElementById("oa-nodes").textContent)[nameOf(tile)];
    const head = document.createElement("p");
    head.append(make("a", nameOf(tile), tile.getAttribute("href")), make("span", state));
    const rows = work.map(([workflow, pool, user, priority, gpus, length]) => {
      const row = document.createElement("div");
      const what = document.createElement("p");
      what.append(make("a", workflow, map().dataset.address.replace("NAME", workflow)), ` × ${gpus}`);
      row.append(what, make("p", length), make("small", `${pool}, ${user}, ${priority}`));
      return row;
    });
    const list = others.map((text) => make("div", text));
    if (!work.length && !others.length) list.push(make("div", "No GPU is in use."));
    card().replaceChildren(head, ...rows, ...list);
  }

  function show(tile) {
    window.clearTimeout(timer);
    if (shown === tile) return;
    hide();
    fill(tile);
    shown = tile;
    tile.dataset.title = tile.title;
    tile.title = "";
    tile.setAttribute("aria-describedby", "oa-nodecard");
    const box = card();
    box.hidden = false;
    const around = map().getBoundingClientRect();
    const place = tile.getBoundingClientRect();
    const left = Math.min(Math.max(0, place.left - around.left), Math.max(0, around.width - box.offsetWidth));
    const isBelow = place.bottom + box.offsetHeight + 4 < window.innerHeight || place.top - box.offsetHeight < 4;
    box.style.left = `${left}px`;
    box.style.top = `${(isBelow ? place.bottom + 2 : place.top - box.offsetHeight - 2) - around.top}px`;
  }

  function hide() {
    window.clearTimeout(timer);
    if (shown) {
      shown.title = shown.dataset.title || "";
      shown.removeAttribute("aria-describedby");
    }
    shown = null;
    if (card()) card().hidden = true;
  }

  // One stop of the Tab key for all tiles: the arrows reach the others.
  function setStop(current) {
    const all = tiles();
    const stop = current || all.find((each) => each === document.activeElement) || all[0];
    for (const each of all) each.tabIndex = each === stop ? 0 : -1;
  }

  function beside(tile, key) {
    const all = tiles();
    if (key === "Home") return all[0];
    if (key === "End") return all[all.length - 1];
    const [across, down] = STEPS[key];
    const at = all.indexOf(tile);
    if (across) return all[at + across];
    const first = all[0].offsetTop;
    const wide = all.filter((each) => each.offsetTop === first).length;
    return all[at + down * wide];
  }

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const tile = tileOf(event.target);
    if (tile) show(tile);
    else if (card()?.contains(event.target)) window.clearTimeout(timer);
    else if (shown && document.activeElement !== shown) {
      window.clearTimeout(timer);
      timer = window.setTimeout(hide, 150); // time to reach the card
    }
  });
  document.addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch" ? tileOf(event.target) : null;
    if (shown && !tileOf(event.target) && !card().contains(event.target)) hide();
  });
  document.addEventListener("click", (event) => {
    const tile = tileOf(event.target);
    if (!tile || tile !== touched || tile.dataset.tapped) return;
    event.preventDefault();
    for (const each of tiles()) delete each.dataset.tapped;
    tile.dataset.tapped = "true";
    show(tile);
  });
  document.addEventListener("focusin", (event) => {
    const tile = tileOf(event.target);
    if (!tile) return;
    setStop(tile);
    if (tile.matches(":focus-visible")) show(tile);
  });
  document.addEventListener("focusout", (event) => {
    if (shown && tileOf(event.target) === shown && !card().contains(event.relatedTarget)) hide();
  });
  document.addEventListener("keydown", (event) => {
    const tile = tileOf(event.target);
    if (event.key === "Escape" && shown) {
      hide();
      return;
    }
    if (!tile || event.ctrlKey || event.metaKey || event.altKey || !(event.key in STEPS || event.key === "Home" || event.key === "End")) return;
    event.preventDefault();
    beside(tile, event.key)?.focus();
  });
  document.addEventListener("osmo:refreshed", () => {
    setStop();
    const tile = shown; // its attributes are those of the new page
    shown = null;
    if (tile?.isConnected && !card().hidden) show(tile);
    else hide();
  });
  setStop();
})();
