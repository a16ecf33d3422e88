// Draws the charts of a page with uPlot. The numbers are in the page; without this script their table is shown.
"use strict";

(function () {
  const HEIGHT = 220;
  const DASHES = { guaranteed: [], low: [6, 3], over: [2, 3], idle: [10, 4], unallocated: [1, 4], offline: [4, 4], lent: [8, 2], borrowed: [3, 3], waiting: [6, 2, 2, 2], plain: [] };
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

  function read(figure) {
    const source = document.getElementById(figure.dataset.plot);
    return source ? JSON.parse(source.textContent) : null;
  }

  // Areas on top of each other: each is drawn from zero to its sum, the highest first.
  function sums(series) {
    const below = new Array(series.length ? series[0].values.length : 0).fill(0);
    return series.map((each) => each.values.map((value, index) => (below[index] += value || 0)));
  }

  function draw(figure) {
    const data = read(figure);
    const picture = figure.querySelector(".oa-plot__picture");
    const legend = figure.querySelector(".oa-plot__legend");
    if (!data || data.times.length < 2) return;
    picture.hidden = false;
    legend.hidden = false;
    picture.replaceChildren();
    const style = getComputedStyle(figure);
    const ink = getComputedStyle(picture).color;
    const line = forced.matches ? ink : style.getPropertyValue("--oa-line").trim();
    const lines = data.stacked ? sums(data.series) : data.series.map((each) => each.values);
    const order = data.series.map((_, index) => index);
    if (data.stacked) order.reverse();
    const stepped = uPlot.paths.stepped({ align: 1 });
    const values = Array.from(legend.querySelectorAll(".oa-plot__value"));

    function show(index) {
      data.series.forEach((each, place) => {
        const value = each.values[index];
        const text = value === null || value === undefined ? "–" : each.texts ? each.texts[index] : value.toLocaleString("en", { maximumFractionDigits: 2 });
        if (values[place]) values[place].textContent = text;
      });
    }

    const options = {
      width: picture.clientWidth || 600,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: true }, y: { range: (plot, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      axes: [
        { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, values: axisTimes, space: 70 },
        { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, label: data.unit, labelSize: 22, size: 56 },
      ],
      series: [{}].concat(
        order.map((index) => {
          const tone = data.series[index].tone;
          const colour = forced.matches ? ink : style.getPropertyValue(`--plot-${tone}`).trim();
          return { label: data.series[index].label, stroke: colour, width: data.stacked && !forced.matches ? 1 : 2, fill: data.stacked && !forced.matches ? colour : undefined, dash: data.stacked && !forced.matches ? [] : DASHES[tone], paths: stepped, points: { show: false } };
        })
      ),
      hooks: { setCursor: [(plot) => show(plot.cursor.idx === null || plot.cursor.idx === undefined ? data.times.length - 1 : plot.cursor.idx)] },
    };
    const plot = new uPlot(options, [data.times].concat(order.map((index) => lines[index])), picture);
    show(data.times.length - 1);
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
