// The form of a cohort: shows the effective quota of its subtree during input. The nodes below count by themselves.
"use strict";

(function () {
  const output = document.querySelector("output[data-subtree]");
  const nominal = document.querySelector("input[name=nominal]");
  const parent = document.querySelector("input[name=parent]");
  if (parent) parent.setAttribute("list", "cohorts");
  if (!output || !nominal) return;
  const parts = output.dataset.subtree ? output.dataset.subtree.split(",").map(Number) : [];
  const isUnlimited = parts.includes(-1);
  const below = parts.reduce((sum, part) => sum + part, 0);

  function gpus(count) {
    return count === 1 ? "1 GPU" : `${count} GPUs`;
  }

  function update() {
    const text = nominal.value.trim() || "0";
    output.classList.remove("oa-note--warn");
    if (!/^\d{1,16}$/.test(text)) {
      output.textContent = "A whole number of GPUs gives the total of the subtree here.";
    } else if (isUnlimited) {
      output.textContent = "A node below is unlimited, and so is the subtree.";
    } else {
      const own = Number(text);
      const counted = parts.length ? `${own} nominal and ${below} below` : "nothing below yet";
      output.textContent = `The effective quota will be ${gpus(own + below)}: ${counted}.`;
      if (own > 0 && own === below) {
        output.textContent += " This repeats the sum of the nodes below: enter it only if the cohort adds as many GPUs again.";
        output.classList.add("oa-note--warn");
      }
    }
  }

  nominal.addEventListener("input", update);
  update();
})();
