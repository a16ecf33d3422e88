// The button next to commands copies them; where the browser forbids that (plain HTTP), it selects them. Without this script
// there is no button.
"use strict";

(function () {
  const SHOWN = 2000; // milliseconds

  function select(text) {
    const range = document.createRange();
    range.selectNodeContents(text);
    window.getSelection().removeAllRanges();
    window.getSelection().addRange(range);
  }

  async function copy(button) {
    const text = button.parentElement.querySelector("pre");
    const [name] = button.childNodes;
    try {
      await navigator.clipboard.writeText(text.textContent.trim());
      name.textContent = "Copied";
    } catch {
      select(text);
      name.textContent = "Selected";
    }
    window.setTimeout(() => (name.textContent = "Copy"), SHOWN);
  }

  const show = () => document.querySelectorAll("[data-copy][hidden]").forEach((button) => (button.hidden = false));
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    if (button) copy(button);
  });
  document.addEventListener("osmo:refreshed", show);
  show();
})();
