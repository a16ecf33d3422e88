// Scheduler events over time: the events of the column at the pointer or the focus as text, and a part of the time that is
// drawn with the pointer as the filter of the list. Without this script each column is a link with a title.
"use strict";

(function () {
  const LEAST = 6; // pixels of a drawn part; less is a click on a column
  let begin = null; // { svg, x }
  let isDrawn = false;

  const pictureOf = (target) => (target instanceof Element ? target.closest(".oa-eventlanes__svg") : null);
  const columnOf = (target) => (target instanceof Element ? target.closest(".oa-eventlanes__svg a") : null);

  function tell(column) {
    const values = column?.closest("figure").querySelector(".oa-eventlanes__values");
    if (values) values.textContent = column.querySelector("title").textContent;
  }

  function mark(svg, from, to) {
    let rect = svg.querySelector(".oa-eventlanes__drawn");
    if (!rect) {
      rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      rect.setAttribute("class", "oa-eventlanes__drawn");
      rect.setAttribute("height", "100%");
      svg.append(rect);
    }
    rect.setAttribute("x", Math.min(from, to));
    rect.setAttribute("width", Math.abs(to - from));
  }

  function timeAt(svg, x) {
    const { since, until } = svg.dataset;
    const share = Math.min(1, Math.max(0, x / svg.clientWidth));
    return new Date((Number(since) + share * (until - since)) * 1000).toISOString().replace(/\.\d+/, "");
  }

  document.addEventListener("pointerover", (event) => tell(columnOf(event.target)));
  document.addEventListener("focusin", (event) => tell(columnOf(event.target)));
  document.addEventListener("dragstart", (event) => {
    if (pictureOf(event.target)) event.preventDefault(); // a column is a link, and links are dragged
  });
  document.addEventListener("pointerdown", (event) => {
    const svg = pictureOf(event.target);
    isDrawn = false;
    begin = svg && event.button === 0 && event.pointerType !== "touch" ? { svg, x: event.clientX - svg.getBoundingClientRect().left } : null;
  });
  document.addEventListener("pointermove", (event) => {
    if (!begin) return;
    const x = event.clientX - begin.svg.getBoundingClientRect().left;
    if (Math.abs(x - begin.x) >= LEAST) isDrawn = true;
    if (isDrawn) mark(begin.svg, begin.x, x);
  });
  document.addEventListener("pointerup", (event) => {
    if (!begin || !isDrawn) {
      begin = null;
      return;
    }
    const { svg, x } = begin;
    begin = null;
    const ends = [x, event.clientX - svg.getBoundingClientRect().left].sort((a, b) => a - b);
    const query = new URLSearchParams(window.location.search);
    query.set("part_since", timeAt(svg, ends[0]));
    query.set("part_until", timeAt(svg, ends[1]));
    query.delete("page");
    window.location.search = query.toString();
  });
  document.addEventListener(
    "click",
    (event) => {
      if (isDrawn && columnOf(event.target)) event.preventDefault();
    },
    true
  );
})();
