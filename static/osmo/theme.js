// The colours and the menu as the person left them, before the page is drawn.
"use strict";

(function () {
  const root = document.documentElement;
  const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");

  function read(name) {
    try {
      return window.localStorage.getItem(`osmo-${name}`) || "";
    } catch {
      return ""; // the browser keeps nothing for this site
    }
  }

  function draw() {
    const theme = read("theme");
    root.classList.toggle("dark", theme === "dark" || (theme !== "light" && systemIsDark.matches));
    root.dataset.menu = read("menu");
  }

  systemIsDark.addEventListener("change", draw);
  document.addEventListener("osmo:preference", draw);
  draw();
})();
