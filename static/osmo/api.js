// The filter of the reference of the API: all words must be in the address, the method or the summary.
"use strict";

(function () {
  const input = document.getElementById("oa-api-find");
  const count = document.getElementById("oa-api-count");
  const none = document.getElementById("oa-api-none");
  const rows = Array.from(document.querySelectorAll("[data-words]"));

  function filter() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => row.dataset.words.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    for (const list of document.querySelectorAll(".oa-api__list")) {
      list.previousElementSibling.hidden = list.hidden = !list.querySelector("li:not([hidden])");
    }
    none.hidden = shown > 0;
    count.textContent = `${shown} operation${shown === 1 ? "" : "s"}`;
  }

  // The words are in the address, so that Back brings them again.
  function keep() {
    window.history.replaceState(window.history.state, "", input.value ? `?q=${encodeURIComponent(input.value)}` : window.location.pathname);
  }

  input.hidden = false;
  input.value = new URLSearchParams(window.location.search).get("q") ?? "";
  input.addEventListener("input", () => {
    filter();
    keep();
  });
  filter();
})();
