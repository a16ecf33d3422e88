// The page of a submission: line numbers beside the file, with the lines that have faults, and examples that fill it.
// Without this script there are no numbers, and a button of the page fills the file.
"use strict";

(function () {
  const file = document.querySelector("textarea[name=file]");
  const faulty = new Set((file.form.dataset.faults || "").split(" ").filter(Boolean).map(Number));
  const gutter = document.createElement("div");
  const lines = document.createElement("pre");
  let shown = 0;

  function number() {
    const count = file.value.split("\n").length;
    if (count === shown) return;
    if (shown) faulty.clear(); // the lines moved
    shown = count;
    const parts = Array.from({ length: count }, (_, index) => {
      if (!faulty.has(index + 1)) return `${index + 1}\n`;
      return Object.assign(document.createElement("b"), { textContent: `${index + 1}\n` });
    });
    lines.replaceChildren(...parts);
  }

  function follow() {
    lines.style.transform = `translateY(${-file.scrollTop}px)`;
  }

  // As if it were typed, so that the browser's Undo brings the former text back.
  function fill(text) {
    file.focus();
    file.select();
    if (!document.execCommand("insertText", false, text)) {
      file.value = text;
      file.dispatchEvent(new Event("input", { bubbles: true }));
    }
    file.setSelectionRange(0, 0);
    file.scrollTop = 0;
  }

  gutter.className = "oa-lines oa-mono";
  gutter.setAttribute("aria-hidden", "true");
  gutter.append(lines);
  file.before(gutter);
  file.addEventListener("input", number);
  file.addEventListener("scroll", follow);
  number();
  follow();

  const choice = document.querySelector("select[name=example]");
  choice.addEventListener("change", () => {
    const example = document.querySelector(`template[data-example="${choice.value}"]`);
    if (example) fill(example.content.textContent);
  });
})();
