// @ts-check
"use strict";

/**
 * Charts of numbers that the builder computed: lines with bands, bars, stacked areas, and score against spending.
 * The arrow keys move through a chart's points, as the mouse does.
 *
 * @typedef {{label: string, y: (number | null)[], low: (number | null)[], high: (number | null)[], top: (number | null)[]}} ChartSeries
 * @typedef {{title: string, x_label: string, x: number[], names: string[], series: ChartSeries[], kind: string, percent: boolean}} ChartPanel
 * @typedef {{name: string, x: number, y: number, low: number, high: number, best: boolean}} ChartPoint
 * @typedef {{about: string, x_label: string, y_label: string, log: boolean, points: ChartPoint[]}} ScatterPanel
 */
(() => {
  const Plot = /** @type {any} */ (globalThis)["uPlot"];
  const COLOURS = 8;
  const HEIGHT = 240;
  /** @type {(() => void)[]} */
  const redraws = [];

  /** @param {string} name @returns {string} */
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  /** @param {number} place */
  const ofSeries = (place) => colour(`--c${(place % COLOURS) + 1}`);

  /**
   * A number as people write it.
   * @param {number | null | undefined} value
   * @param {boolean} percent
   */
  function written(value, percent) {
    if (value === null || value === undefined) return "–";
    if (percent) return `${(100 * value).toFixed(1)} %`;
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
    return value.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? 7 : 4 });
  }

  /**
   * @param {string} label
   * @param {(value: number) => string} values
   */
  function axis(label, values) {
    return {
      label,
      labelSize: label ? 22 : 0,
      labelFont: "12px system-ui, sans-serif",
      font: "12px system-ui, sans-serif",
      stroke: colour("--soft"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1, size: 4 },
      values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map((v) => (v === null ? "" : values(v))),
    };
  }

  /**
   * Bars of several series side by side.
   * @param {number} place
   * @param {number} count
   */
  function bars(place, count) {
    return (/** @type {any} */ u, /** @type {number} */ index, /** @type {number} */ from, /** @type {number} */ to) => {
      const fill = new Path2D();
      const unit = Math.abs(u.valToPos(1, "x", true) - u.valToPos(0, "x", true));
      const width = (0.8 * unit) / count;
      const zero = u.valToPos(0, "y", true);
      for (let i = from; i <= to; i += 1) {
        const value = u.data[index][i];
        if (value === null || value === undefined) continue;
        const left = u.valToPos(u.data[0][i], "x", true) - 0.4 * unit + place * width;
        const top = u.valToPos(value, "y", true);
        fill.rect(left, Math.min(top, zero), width * 0.94, Math.abs(zero - top));
      }
      return { fill, stroke: null, clip: null, flags: 1 };
    };
  }

  /**
   * What uPlot needs to draw a panel.
   * @param {ChartPanel} panel
   * @returns {{data: any[], options: any}}
   */
  function plan(panel) {
    /** @type {any[]} */
    const data = [panel.x];
    /** @type {any[]} */
    const series = [{ label: panel.x_label || " ", value: (/** @type {any} */ _, /** @type {number} */ v) => place(v) }];
    /** @type {any[]} */
    const bands = [];
    const place = (/** @type {number | null} */ v) => {
      if (v === null) return "–";
      return panel.names.length ? (Number.isInteger(v) ? (panel.names[v] ?? "") : "") : written(v, false);
    };
    panel.series.forEach((one, number) => {
      const ink = ofSeries(number);
      const raw = (/** @type {any} */ _, /** @type {any} */ _v, /** @type {any} */ _s, /** @type {number | null} */ i) =>
        written(i === null ? null : one.y[i], panel.percent);
      const drawn = { label: one.label, stroke: ink, width: 1.6, value: raw, points: { show: panel.x.length <= 30, size: 5 } };
      const below = data.length - 1;
      data.push(panel.kind === "areas" ? one.top : one.y);
      if (panel.kind === "bars") {
        series.push({ ...drawn, fill: ink, width: 0, paths: bars(number, panel.series.length), points: { show: false } });
      } else if (panel.kind === "areas") {
        series.push({ ...drawn, width: 1, fill: number ? undefined : `${ink}55`, points: { show: false } });
        if (number) bands.push({ series: [data.length - 1, below], fill: `${ink}55` });
      } else {
        series.push(drawn);
      }
      if (one.low.length) {
        const hidden = { stroke: "transparent", width: 0, points: { show: false }, legend: false, label: "" };
        data.push(one.high, one.low);
        series.push(hidden, hidden);
        bands.push({ series: [data.length - 2, data.length - 1], fill: `${ink}26` });
      }
    });
    const named = panel.names.length > 0;
    const x = named ? { time: false, range: [-0.6, panel.x.length - 0.4] } : { time: false };
    const zero = panel.kind !== "lines";
    const range = (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) =>
      low === high
        ? [low - 1, low + 1]
        : Plot.rangeNum(zero ? Math.min(0, low) : low, high, { min: { pad: zero ? 0 : 0.1 }, max: { pad: 0.1 } });
    const across = { ...axis(panel.x_label, place), size: 30, ...(named ? { splits: () => panel.x } : {}) };
    const up = { ...axis("", (v) => written(v, panel.percent).replace(".0 %", " %")), size: 58 };
    return { data, options: { series, bands, scales: { x, y: { range } }, axes: [across, up] } };
  }

  /**
   * Draw into an element, again when colours or its width change.
   * @param {HTMLElement} host
   * @param {string} about
   * @param {() => {data: any[], options: any}} make
   */
  function draw(host, about, make) {
    /** @type {any} */
    let plot = null;
    const redraw = () => {
      if (plot) plot.destroy();
      const { data, options } = make();
      const size = { width: Math.max(host.clientWidth, 200), height: HEIGHT };
      plot = new Plot({ ...size, cursor: { y: false, drag: { x: false, y: false } }, ...options }, data, host);
      plot.ctx.canvas.setAttribute("role", "img");
      plot.ctx.canvas.setAttribute("aria-label", about);
      host.querySelectorAll(".u-legend .u-series").forEach((row, i) => row.toggleAttribute("hidden", options.series[i].legend === false));
    };
    let width = 0;
    new ResizeObserver(() => {
      if (host.clientWidth === width) return;
      width = host.clientWidth;
      redraw();
    }).observe(host);
    redraws.push(redraw);
    let at = -1;
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", `${about}: the arrow keys move through the points`);
    host.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined || !plot) return;
      event.preventDefault();
      at = Math.min(Math.max(at + step, 0), plot.data[0].length - 1);
      const left = plot.valToPos(plot.data[0][at], "x");
      plot.setCursor({ left, top: 0 });
      plot.setLegend({ idx: at });
    });
  }

  /**
   * @param {ScatterPanel} panel
   * @returns {{data: any[], options: any}}
   */
  function scatterPlan(panel) {
    const { points } = panel;
    const ink = colour("--ink");
    const dots = { stroke: colour("--c1"), fill: colour("--c1"), size: 8, show: true };
    const series = [
      { label: panel.x_label, value: (/** @type {any} */ _, /** @type {number} */ v) => written(v, false) },
      { label: panel.y_label, paths: () => null, points: dots, value: named },
      { label: "nobody does better for as little", stroke: colour("--soft"), dash: [4, 4], spanGaps: true, points: { show: false } },
    ];

    function named(/** @type {any} */ _, /** @type {any} */ _v, /** @type {any} */ _s, /** @type {number | null} */ i) {
      const point = i === null ? undefined : points[i];
      return point ? `${point.name}: ${written(point.y, false)} [${written(point.low, false)}, ${written(point.high, false)}]` : "–";
    }

    function decorate(/** @type {any} */ u) {
      const { ctx } = u;
      ctx.save();
      ctx.strokeStyle = colour("--soft");
      ctx.fillStyle = ink;
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.setLineDash([]);
      /** @type {number[][]} */
      const taken = [];
      for (const point of points) {
        const x = u.valToPos(point.x, "x", true);
        ctx.beginPath();
        ctx.moveTo(x, u.valToPos(point.low, "y", true));
        ctx.lineTo(x, u.valToPos(point.high, "y", true));
        ctx.stroke();
        const name = point.name.slice(0, 40);
        const [width, height] = [ctx.measureText(name).width, 16 * devicePixelRatio];
        const right = x > u.bbox.left + 0.7 * u.bbox.width;
        const left = right ? x - width - 8 * devicePixelRatio : x + 8 * devicePixelRatio;
        const bottom = u.valToPos(point.y, "y", true) - 6 * devicePixelRatio;
        // a name that would cover another is left to the legend
        if (taken.some(([l = 0, b = 0, w = 0]) => left < l + w && l < left + width && Math.abs(b - bottom) < height)) continue;
        taken.push([left, bottom, width]);
        ctx.fillText(name, left, bottom);
      }
      ctx.restore();
    }

    const ends = points.flatMap((point) => [point.low, point.high]);
    const y = { range: () => Plot.rangeNum(Math.min(...ends), Math.max(...ends), 0.1, true) };
    const xs = points.map((point) => point.x);
    const around = (/** @type {number} */ low, /** @type {number} */ high) => (panel.log ? [low / 1.6, high * 1.6] : [0, high * 1.15]);
    const x = { time: false, distr: panel.log ? 3 : 1, range: () => around(Math.min(...xs), Math.max(...xs)) };
    const axes = [{ ...axis(panel.x_label, (v) => written(v, false)), size: 30 }, { ...axis(panel.y_label, (v) => written(v, false)), size: 54 }];
    const front = points.map((point) => (point.best ? point.y : null));
    return {
      data: [xs, points.map((point) => point.y), front],
      options: { height: 340, series, scales: { x, y }, axes, hooks: { draw: [decorate] } },
    };
  }

  /**
   * A chart with a choice of what is on its axes.
   * @param {HTMLElement} host
   * @param {ScatterPanel[]} panels
   */
  function showScatter(host, panels) {
    const select = agentgym.element("select", { change: show });
    panels.forEach((panel, i) => select.append(agentgym.element("option", { value: i }, panel.about)));
    const form = agentgym.element("p", {}, agentgym.element("label", { class: "soft" }, "Show ", select));
    const stage = agentgym.element("div");
    host.append(form, stage);

    function show() {
      const chosen = panels[Number(/** @type {HTMLSelectElement} */ (select).value)];
      if (!chosen) return;
      redraws.length = 0;
      const fresh = agentgym.element("div");
      stage.replaceChildren(fresh);
      draw(fresh, chosen.about, () => scatterPlan(chosen));
    }
    show();
  }

  /**
   * @param {HTMLElement} host
   * @param {ChartPanel[]} panels
   */
  function showPanels(host, panels) {
    for (const panel of panels) {
      const stage = agentgym.element("div");
      host.append(agentgym.element("div", { class: "chart" }, agentgym.element("h4", {}, panel.title), stage));
      draw(stage, panel.title, () => plan(panel));
    }
  }

  for (const host of document.querySelectorAll("[data-scatter], [data-panels]")) {
    const { scatter, panels, src } = /** @type {HTMLElement} */ (host).dataset;
    agentgym.load(scatter ?? panels ?? "", src ?? "").then((value) => {
      if (scatter) showScatter(/** @type {HTMLElement} */ (host), value);
      else showPanels(/** @type {HTMLElement} */ (host), value[/** @type {HTMLElement} */ (host).dataset.part ?? ""]);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));
})();
