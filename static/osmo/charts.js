// Draws the charts of a page with uPlot. The numbers are in the page; without this script their table is shown.
"use strict";

(function () {
  const HEIGHT = 200;
  const FAR = 2.5; // a line this many times as high as the areas is named beside the picture, not drawn in it
  const DAY = 86400;
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const forced = window.matchMedia("(forced-colors: active)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = [];

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

  function read(figure) {
    const source = document.getElementById(figure.dataset.plot);
    return source ? JSON.parse(source.textContent) : null;
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

    function follow(plot) {
      const { idx, left } = plot.cursor;
      const isOn = idx !== null && idx !== undefined && left >= 0;
      const index = isOn ? Math.min(idx, last) : last;
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
      cursor: { y: false, drag: { x: true, y: false, dist: 8 }, points: { show: false } },
      scales: {
        x: { time: true, range: (plot, low, high) => (back.hidden ? data.axis : [low, high]) },
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
        setSelect: [
          (plot) => {
            if (plot.select.width > 0) back.hidden = false; // before the scale is set
          },
        ],
      },
    };
    back.hidden = true;
    const plot = new uPlot(options, [data.times].concat(order.map((index) => drawnValues[index])), picture);
    plot.root.append(bubble);
    show(last);
    back.onclick = () => {
      back.hidden = true;
      plot.setScale("x", { min: data.axis[0], max: data.axis[1] });
    };
    plot.over.addEventListener("dblclick", back.onclick);
    drawn.push({ figure, picture, plot });
  }

  function drawAll() {
    for (const each of drawn.splice(0)) each.plot.destroy();
    document.querySelectorAll("[data-plot]").forEach(draw);
  }

  drawAll();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const each of drawn) each.plot.setSize({ width: each.picture.clientWidth, height: HEIGHT });
  });
  for (const query of [forced, dark]) query.addEventListener("change", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
})();
