// What the quota in a form leaves free, or makes of the quota of a cohort's subtree, while a person types. The numbers
// stand in the page. The boxes of a replay show the numbers of today.
"use strict";

(function () {
  const output = document.querySelector("output[data-note]");
  const cohort = document.querySelector("input[name=parent], input[name=cohort]");
  if (cohort && document.getElementById("cohorts")) cohort.setAttribute("list", "cohorts");
  for (const box of document.querySelectorAll("input[list=replay-names]")) {
    const names = Array.from(box.list.options);
    const showToday = () => {
      const today = names.find(({ value }) => value === box.value.trim())?.dataset ?? {};
      for (const key of ["quota", "limit", "weight"]) box.form.elements[box.name.replace("name", key)].placeholder = key in today ? `now ${today[key]}` : "";
    };
    box.addEventListener("input", showToday);
    showToday();
  }
  if (!output) return;
  const input = document.getElementById(output.htmlFor.value);
  const numbers = JSON.parse(output.dataset.numbers);
  const atFirst = output.textContent;

  function gpus(count) {
    return count === 1 ? "1 GPU" : `${count} GPUs`;
  }

  // `numbers`: by the value of the field `by` (or alone), the owner, its GPUs, and those that others have.
  function freeText(typed) {
    const by = numbers.by ? document.querySelector(`[name=${numbers.by}]`)?.value : "";
    const room = numbers.rooms[by || ""];
    if (!room) return "";
    const share = /^(\d+(?:\.\d+)?)\s*(%?)$/.exec(typed || "0");
    if (!share) return numbers.by ? "" : atFirst;
    const wanted = Math.floor(share[2] ? (room.total * Number(share[1])) / 100 : Number(share[1]));
    const left = room.total - room.others - wanted;
    const size = share[2] ? `${share[1]}% are ${gpus(wanted)}. ` : "";
    if (left < 0) return `${size}${gpus(-left)} more than ${room.owner} has free.`;
    return `${size}${left} of ${gpus(room.total)} of ${room.owner} stay free.`;
  }

  // `numbers`: the GPUs that each node below adds; -1 is unlimited.
  function subtreeText(typed) {
    const text = typed || "0";
    const below = numbers.reduce((sum, part) => sum + part, 0);
    if (!/^\d{1,16}$/.test(text)) return "A whole number of GPUs gives the total of the subtree here.";
    if (numbers.includes(-1)) return "A node below is unlimited, and so is the subtree.";
    const own = Number(text);
    const counted = numbers.length ? `${own} nominal and ${below} below` : "nothing below yet";
    const total = `The effective quota will be ${gpus(own + below)}: ${counted}.`;
    if (own === 0 || own !== below) return total;
    return `${total} This repeats the sum of the nodes below: enter it only if the cohort adds as many GPUs again.`;
  }

  function update() {
    const text = (output.dataset.note === "free" ? freeText : subtreeText)(input.value.trim());
    if (output.textContent !== text) output.textContent = text;
    output.classList.toggle("oa-fault", /more than|This repeats/.test(text));
  }

  input.form.addEventListener("input", update);
  input.form.addEventListener("change", update);
  update();
})();
