// Draws the charts of a page with uPlot. The numbers are in the page; without this script their table is shown. A part of
// the time is enlarged in all charts of the page, by a drag of the pointer or the finger or by keys, and is in the address
// as #part=FROM-TO in seconds, so that a reload and a link show it.
"use strict";

(function () {
  const HEIGHT = 200;
  const FAR = 2.5; // a line this many times as high as the areas is named beside the picture, not drawn in it
  const DAY = 86400;
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const forced = window.matchMedia("(forced-colors: active)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = [];
  const HOW = "Drag over a part to enlarge it. Keys: the arrows move along the time, + and - enlarge and shrink, Escape shows the whole period.";
  const LEAST = 8; // pixels of a drawn part; less is a tap
  const followed = new WeakMap(); // by picture: what its keys do for the chart that is drawn there now
  let part = partInAddress();

  function partInAddress() {
    const found = /^#part=(\d{1,12})-(\d{1,12})$/.exec(window.location.hash);
    return found && Number(found[1]) < Number(found[2]) ? [Number(found[1]), Number(found[2])] : null;
  }

  // The enlarged part as far as a chart has it; null for the whole of it.
  function partOf([begin, end]) {
    if (!part) return null;
    const found = [Math.max(begin, part[0]), Math.min(end, part[1])];
    return found[0] < found[1] && (found[0] > begin || found[1] < end) ? found : null;
  }

  function showPart(next) {
    part = next && [Math.floor(next[0]), Math.ceil(next[1])];
    const { pathname, search } = window.location;
    window.history.replaceState(window.history.state, "", `${pathname}${search}${part ? `#part=${part.join("-")}` : ""}`);
    for (const each of drawn) each.showPart();
  }

  function two(number) {
    return String(number).padStart(2, "0");
  }

  // Every time is written in UTC, as in the table.
  function axisTimes(plot, splits, axis, space, step) {
    return splits.map((seconds) => {
      const at = new Date(seconds * 1000);
      const day = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
      const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
      return step >= DAY || clock === "00:00" ? day : clock;
    });
  }

  function momentText(seconds) {
    const at = new Date(seconds * 1000);
    return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  }

  function valueText(each, index) {
    const value = each.values[index];
    if (value === null || value === undefined) return "–";
    return each.texts ? each.texts[index] : value.toLocaleString("en", { maximumFractionDigits: 1 }).replaceAll(",", "\u202f");
  }

  // Without colours an area has a pattern: lines of one direction, or dots; the swatches of charts.css look the same.
  function patternOf(place, ink) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 2;
    const lines = [[[0, 4, 8, 4]], [[-2, 2, 2, -2], [0, 8, 8, 0], [6, 10, 10, 6]], [[4, 0, 4, 8]], [[-2, 6, 2, 10], [0, 0, 8, 8], [6, -2, 10, 2]]];
    if (place === 0) pen.fillRect(0, 0, 8, 8);
    else if (place > lines.length) pen.fillRect(2, 2, 3, 3);
    else
      for (const [x, y, toX, toY] of lines[place - 1]) {
        pen.beginPath();
        pen.moveTo(x, y);
        pen.lineTo(toX, toY);
        pen.stroke();
      }
    return pen.createPattern(tile, "repeat");
  }

  const textOf = (figure) => document.getElementById(figure.dataset.plot)?.textContent;

  function read(figure) {
    const text = textOf(figure);
    return text ? JSON.parse(text) : null;
  }

  // Areas on top of each other: each is drawn from zero to its sum, the highest first. Lines are drawn over them.
  function heights(series) {
    const below = new Array(series.length ? series[0].values.length : 0).fill(0);
    return series.map((each) => (each.line ? each.values : each.values.map((value, index) => (value === null ? null : (below[index] += value)))));
  }

  const mostOf = (values) => values.reduce((most, value) => Math.max(most, value || 0), 0);

  function draw(figure) {
    const data = read(figure);
    const picture = figure.querySelector(".oa-plot__picture");
    const legend = figure.querySelector(".oa-plot__legend");
    const back = figure.querySelector(".oa-plot__back");
    if (!data || data.times.length < 2) return;
    picture.hidden = false;
    legend.hidden = false;
    picture.setAttribute("aria-label", `${data.title}: ${figure.querySelector(".oa-plot__summary").textContent}`);
    picture.replaceChildren();
    const style = getComputedStyle(figure);
    const ink = getComputedStyle(picture).color;
    const grid = forced.matches ? ink : style.getPropertyValue("--oa-line").trim();
    const drawnValues = heights(data.series);
    const areas = data.series.map((_, index) => index).filter((index) => !data.series[index].line);
    const lines = data.series.map((_, index) => index).filter((index) => data.series[index].line);
    const order = areas.slice().reverse().concat(lines);
    const highest = Math.max(0, ...areas.map((index) => mostOf(drawnValues[index])));
    const isFar = (index) => highest > 0 && mostOf(drawnValues[index]) > FAR * highest;
    const most = Math.max(highest, ...lines.filter((index) => !isFar(index)).map((index) => mostOf(drawnValues[index])));
    const stepped = uPlot.paths.stepped({ align: 1 });
    const values = Array.from(legend.querySelectorAll(".oa-plot__value"));
    const time = legend.querySelector(".oa-plot__time");
    const last = data.times.length - 2; // the newest step; the value after it is its end
    const bubble = document.createElement("div");
    bubble.className = "oa-plot__bubble";
    bubble.hidden = true;

    function show(index) {
      data.series.forEach((each, place) => {
        const isAbove = each.line && isFar(place);
        if (values[place]) values[place].textContent = valueText(each, index) + (isAbove ? " ↑" : "");
      });
      time.textContent = `from ${momentText(data.times[index])}`;
    }

    // The newest step of the part that is shown.
    function newest() {
      const end = (partOf(data.axis) || data.axis)[1];
      const index = data.times.findLastIndex((time, place) => place <= last && time < end);
      return Math.max(index, 0);
    }

    function follow(plot) {
      const { idx, left } = plot.cursor;
      const isOn = idx !== null && idx !== undefined && left >= 0;
      const index = isOn ? Math.min(idx, last) : newest();
      show(index);
      bubble.hidden = !isOn;
      if (!isOn) return;
      bubble.replaceChildren(...[momentText(data.times[index])].concat(data.series.map((each) => `${each.label} ${valueText(each, index)}`)).map((text) => Object.assign(document.createElement("div"), { textContent: text })));
      const over = plot.over;
      const isLeft = left > over.clientWidth / 2;
      bubble.style.left = `${over.offsetLeft + left + (isLeft ? -12 : 12)}px`;
      bubble.style.transform = isLeft ? "translateX(-100%)" : "";
    }

    function markNow(plot) {
      if (!data.now) return;
      const x = plot.valToPos(data.now, "x", true);
      const { ctx, bbox } = plot;
      if (x < bbox.left || x > bbox.left + bbox.width) return;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = ink;
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
      ctx.fillText("now", x + (ctx.textAlign === "left" ? 4 : -4) * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
      ctx.restore();
    }

    function look(index) {
      const each = data.series[index];
      const colour = forced.matches ? ink : style.getPropertyValue(`--plot-${each.tone}`).trim();
      const common = { label: each.label, stroke: colour, paths: stepped, points: { show: false } };
      if (each.line) return { ...common, width: 2, dash: each.tone === "capacity" ? [2, 3] : [8, 4], show: !isFar(index) };
      return { ...common, width: forced.matches ? 1 : 0, show: mostOf(data.series[index].values) > 0, fill: forced.matches ? patternOf(areas.indexOf(index), ink) : colour };
    }

    const options = {
      width: picture.clientWidth || 600,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false, dist: LEAST, setScale: false }, points: { show: false } },
      scales: {
        x: { time: true, range: () => partOf(data.axis) || data.axis },
        y: { range: () => [0, most > 0 ? most * 1.08 : 1] },
      },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      axes: [
        { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, values: axisTimes, space: 70, size: 30 },
        { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, size: 52, values: (plot, splits) => splits.map((value) => value.toLocaleString("en").replaceAll(",", "\u202f")) },
      ],
      series: [{}].concat(order.map(look)),
      hooks: {
        setCursor: [follow],
        draw: [markNow],
        setSelect: [enlargeSelected],
      },
    };
    const plot = new uPlot(options, [data.times].concat(order.map((index) => drawnValues[index])), picture);
    plot.root.append(bubble);
    show(newest());

    function enlargeSelected(of) {
      const { left, width } = of.select;
      if (width > 0) of.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      if (width >= LEAST) enlarge(of.posToVal(left, "x"), of.posToVal(left + width, "x"));
    }

    // At least two steps, inside the axis.
    function enlarge(from, to) {
      const [begin, end] = data.axis;
      const length = Math.max(to - from, 2 * (data.times[1] - data.times[0]));
      const first = Math.min(Math.max(begin, (from + to - length) / 2), end - length);
      showPart(length >= end - begin ? null : [first, first + length]);
    }

    function showOwnPart() {
      const [min, max] = partOf(data.axis) || data.axis;
      back.hidden = !partOf(data.axis);
      plot.setScale("x", { min, max });
      if (bubble.hidden) show(newest());
    }

    back.onclick = () => {
      showPart(null);
      picture.focus({ preventScroll: true });
    };
    back.hidden = !partOf(data.axis);
    plot.over.addEventListener("dblclick", () => showPart(null));
    followFinger(plot, enlargeSelected);
    followKeys(figure, picture, plot, data, enlarge);
    drawn.push({ figure, picture, plot, text: textOf(figure), showPart: showOwnPart, showValues: () => follow(plot) });
  }

  // uPlot listens to the mouse alone. A finger that moves up and down still scrolls the page (charts.css).
  function followFinger(plot, enlargeSelected) {
    const { over } = plot;
    let begin = null;
    const place = (event) => Math.min(over.clientWidth, Math.max(0, event.clientX - over.getBoundingClientRect().left));
    over.addEventListener("pointerdown", (event) => {
      begin = event.pointerType === "touch" && event.isPrimary ? place(event) : null;
      if (begin !== null) plot.setCursor({ left: begin, top: 0 });
    });
    over.addEventListener("pointermove", (event) => {
      if (begin === null) return;
      const now = place(event);
      plot.setCursor({ left: now, top: 0 });
      plot.setSelect({ left: Math.min(begin, now), top: 0, width: Math.abs(now - begin), height: over.clientHeight }, false);
    });
    over.addEventListener("pointerup", () => {
      if (begin !== null) enlargeSelected(plot);
      begin = null;
    });
    over.addEventListener("pointercancel", () => {
      if (begin !== null) plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      begin = null;
    });
  }

  function followKeys(figure, picture, plot, data, enlarge) {
    const said = figure.querySelector(".oa-plot__said");
    const last = data.times.length - 2;
    let at = last;

    function move(steps) {
      const [low, high] = partOf(data.axis) || data.axis;
      const inside = data.times.map((_, index) => index).filter((index) => index <= last && data.times[index] >= low && data.times[index] <= high);
      if (!inside.length) return;
      at = Math.min(inside[inside.length - 1], Math.max(inside[0], at + steps));
      plot.setCursor({ left: plot.valToPos(data.times[at], "x"), top: 0 });
      said.textContent = [momentText(data.times[at])].concat(data.series.map((each) => `${each.label} ${valueText(each, at)}`)).join(", ");
    }

    function scale(factor) {
      const [low, high] = partOf(data.axis) || data.axis;
      const half = ((high - low) * factor) / 2;
      enlarge(data.times[at] - half, data.times[at] + half);
      move(0);
    }

    if (!followed.has(picture))
      picture.addEventListener("keydown", (event) => {
        const act = event.ctrlKey || event.metaKey || event.altKey ? null : followed.get(picture)[event.key];
        if (!act) return;
        event.preventDefault();
        event.stopPropagation(); // no key of the whole page
        act();
      });
    followed.set(picture, {
      ArrowLeft: () => move(-1),
      ArrowRight: () => move(1),
      "+": () => scale(0.5),
      "=": () => scale(0.5),
      "-": () => scale(2),
      Escape: () => {
        showPart(null);
        plot.setCursor({ left: -10, top: -10 });
      },
    });
    picture.tabIndex = 0;
    picture.title = HOW;
  }

  function drawAll() {
    for (const each of drawn.splice(0)) each.plot.destroy();
    document.querySelectorAll("[data-plot]").forEach(draw);
  }

  // After a refresh of the page (live.js): new numbers are drawn under the cursor that is there, not during a drag.
  function drawChanged() {
    for (const each of drawn.filter(({ figure }) => !figure.isConnected)) {
      each.plot.destroy();
      drawn.splice(drawn.indexOf(each), 1);
    }
    for (const figure of document.querySelectorAll("[data-plot]")) {
      const place = drawn.findIndex((each) => each.figure === figure);
      if (place < 0) {
        draw(figure);
        continue;
      }
      const { plot, text, showValues } = drawn[place];
      const count = drawn.length;
      if (text === textOf(figure) || plot.select.width > 0) {
        showValues(); // the refresh took them out of the legend
        continue;
      }
      const { left, top } = plot.cursor;
      plot.destroy();
      drawn.splice(place, 1);
      draw(figure);
      if (left >= 0 && drawn.length === count) drawn.at(-1).plot.setCursor({ left, top });
    }
  }

  drawAll();
  document.addEventListener("osmo:refreshed", drawChanged);
  window.addEventListener("hashchange", () => {
    part = partInAddress();
    for (const each of drawn) each.showPart();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const each of drawn) each.plot.setSize({ width: each.picture.clientWidth, height: HEIGHT });
  });
  for (const query of [forced, dark]) query.addEventListener("change", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
})();
