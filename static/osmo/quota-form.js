// The form of a cohort: what its subtree owns together, while one types. What is below counts by itself already.
"use strict";

(function () {
  const output = document.querySelector("output[data-subtree]");
  const nominal = document.querySelector("input[name=nominal]");
  const parent = document.querySelector("input[name=parent]");
  if (parent) parent.setAttribute("list", "cohorts");
  if (!output || !nominal) return;
  const parts = output.dataset.subtree ? output.dataset.subtree.split(",").map(Number) : [];
  const endless = parts.includes(-1);
  const below = parts.reduce((sum, part) => sum + part, 0);

  function gpus(count) {
    return count === 1 ? "1 GPU" : `${count} GPUs`;
  }

  function tell() {
    const text = nominal.value.trim() || "0";
    output.classList.remove("oa-note--warn");
    if (!/^\d{1,16}$/.test(text)) {
      output.textContent = "A whole number of GPUs gives the total of the subtree here.";
    } else if (endless) {
      output.textContent = "Something below it is unlimited, and so is the subtree.";
    } else {
      const own = Number(text);
      const counted = parts.length ? `${own} of its own and ${below} below it` : "nothing stands below it yet";
      output.textContent = `The subtree will own ${gpus(own + below)}: ${counted}.`;
      if (own > 0 && own === below) {
        output.textContent += " That is just what stands below it already: enter it only if there are as many again.";
        output.classList.add("oa-note--warn");
      }
    }
  }

  nominal.addEventListener("input", tell);
  tell();
})();
