// The frame of a page: the menu, the choice of colours, messages of the page before.
"use strict";

(function () {
  const root = document.documentElement;

  function read(name) {
    try {
      return window.localStorage.getItem(`osmo-${name}`) || "";
    } catch {
      return "";
    }
  }

  function write(name, value) {
    try {
      window.localStorage.setItem(`osmo-${name}`, value);
    } catch {
      // the choice lasts until the next page
    }
    document.dispatchEvent(new CustomEvent("osmo:preference", { detail: { name, value } }));
  }

  // Colours and times: buttons of which one is pressed.
  for (const group of document.querySelectorAll("[data-choice]")) {
    const buttons = group.querySelectorAll("button");
    const draw = () => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === read(group.dataset.choice)));
    };
    for (const button of buttons) {
      button.addEventListener("click", () => {
        write(group.dataset.choice, button.value);
        draw();
      });
    }
    draw();
  }

  // What opens over the page (a details element) begins with its first field; Escape and a click elsewhere close it.
  const opened = () => Array.from(document.querySelectorAll("details.oa-pop[open]"));
  document.addEventListener("toggle", ({ target }) => {
    if (target.matches?.("details.oa-pop[open]")) target.querySelector("input, select")?.focus();
  }, true);
  document.addEventListener("click", ({ target }) => {
    for (const each of opened()) each.open = each.contains(target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const each of opened()) {
      if (each.contains(document.activeElement)) each.querySelector("summary").focus();
      each.open = false;
    }
  });

  // A tab that does not fit is scrolled to.
  document.querySelector(".oa-tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

  // Escape closes what is open over the page, and goes back to what opened it.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details:is(.oa-user, .oa-pop, .oa-words)[open]")) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });

  // The menu: next to the page on a desk, over the page on a phone.
  const fold = document.querySelector("[data-menu-fold]");
  const open = document.querySelector("[data-menu-open]");
  const close = document.querySelector("[data-menu-close]");
  if (!fold || !open || !close) return;
  const drawFold = () => fold.setAttribute("aria-expanded", String(read("menu") !== "closed"));
  fold.addEventListener("click", () => {
    write("menu", read("menu") === "closed" ? "" : "closed");
    drawFold();
  });
  drawFold();

  function setOpen(isOpen) {
    root.classList.toggle("oa-menu-open", isOpen);
    open.setAttribute("aria-expanded", String(isOpen));
    (isOpen ? close : open).focus();
  }
  open.addEventListener("click", () => setOpen(true));
  close.addEventListener("click", () => setOpen(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && root.classList.contains("oa-menu-open")) setOpen(false);
  });
})();
