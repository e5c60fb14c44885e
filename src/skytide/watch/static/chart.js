"use strict";
/* Values over time, and points of two columns. A chart knows only its description and the points; colours come from the style sheet. */

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 156;

function made(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function shown(value, unit) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (unit === "s" && size > 0 && size < 1) return `${(1e3 * value).toLocaleString("en", { maximumFractionDigits: size < 0.01 ? 1 : 0 })} ms`;
  const short = size >= 1e9 ? [1e9, " G"] : size >= 1e6 ? [1e6, " M"] : size >= 1e4 && unit !== "%" ? [1e3, " k"] : [1, ""];
  const scaled = value / short[0];
  const digits = Math.abs(scaled) >= 100 ? 0 : Math.abs(scaled) >= 10 ? 1 : 2;
  const text = scaled.toLocaleString("en", { maximumFractionDigits: digits }) + short[1];
  return unit === "%" ? `${text} %` : unit === "s" ? `${text} s` : text;
}

class Chart {
  constructor(parent, about) {
    this.about = about;
    this.card = made("section", about.wide ? "card wide" : "card");
    const title = made("h3", "", `${about.title} `);
    title.append(made("small", "", about.note || (about.unit === "%" || about.unit === "s" ? "" : about.unit)));
    this.legend = made("ul", "legend");
    this.values = about.series.map((series, at) => {
      const item = made("li"), dot = made("i"), value = made("b");
      dot.style.background = `var(--c${at % 6})`;
      item.append(dot, `${series.label} `, value);
      this.legend.append(item);
      return value;
    });
    this.place = made("div", "plot");
    this.place.tabIndex = 0;
    this.place.setAttribute("role", "img");
    this.place.addEventListener("keydown", (event) => this.move(event));
    this.place.addEventListener("blur", () => this.plot && this.plot.setCursor({ left: -10, top: -10 }));
    this.card.append(title, this.legend, this.place);
    parent.append(this.card);
    this.marks = [];
    this.seen = new ResizeObserver(() => this.plot && this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT }));
    this.seen.observe(this.place);
  }

  draw(trail, span, marks) {
    const times = trail.t || [];
    this.raw = this.about.series.map((series) => trail[series.field] || times.map(() => null));
    this.times = times;
    this.marks = marks;
    const last = times[times.length - 1] ?? 0;
    this.window = [Math.max(times[0] ?? 0, last - span), last];
    if (this.window[1] - this.window[0] < 20) this.window[0] = this.window[1] - 20;
    const data = [times, ...(this.about.drawn === "stack" ? this.stacked() : this.raw)];
    if (this.plot) this.plot.setData(data);
    else if (times.length) this.plot = new uPlot(this.options(), data, this.place);
    this.tell();
  }

  /* On top of each other, the highest first, so that the lower ones are drawn over it. */
  stacked() {
    const sums = this.times.map(() => 0);
    const grown = this.raw.map((values) => values.map((value, at) => {
      sums[at] += value ?? 0;
      return this.raw.every((each) => each[at] === null || each[at] === undefined) ? null : sums[at];
    }));
    return grown.reverse();
  }

  options() {
    const stack = this.about.drawn === "stack";
    const lines = this.about.series.map((series, at) => {
      const tone = () => colour(`--c${at % 6}`);
      const line = { label: series.label, stroke: tone, width: 1.6, points: { show: false }, spanGaps: true };
      if (stack) line.fill = tone;
      else if (at === 0) line.fill = () => `${tone()}26`;
      if (this.about.drawn === "step") line.paths = uPlot.paths.stepped({ align: 1 });
      if (this.about.drawn === "step") delete line.fill;
      if (this.about.band && this.about.band.includes(series.field)) line.width = 0.6;
      return line;
    });
    const axis = { stroke: () => colour("--dim"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, font: "11.5px system-ui, sans-serif" };
    return {
      width: this.place.clientWidth || 400,
      height: HEIGHT,
      legend: { show: false },
      cursor: { sync: { key: "skytide" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { range: () => this.window }, y: { range: (plot, low, high) => [0, Math.min(1.12 * Math.max(high || 0, this.about.limit || 0) || 1, this.about.top ?? Infinity)] } },
      series: [{}, ...(stack ? lines.reverse() : lines)],
      bands: this.bands(),
      axes: [
        { ...axis, size: 26, space: 70, values: (plot, ticks) => ticks.map((tick) => clock(tick, this.window[1] - this.window[0])) },
        { ...axis, size: 54, space: 34, values: (plot, ticks) => ticks.map((tick) => shown(tick, this.about.unit)) },
      ],
      hooks: { draw: [(plot) => this.over(plot)], setCursor: [(plot) => this.tell(plot.cursor.idx)] },
    };
  }

  bands() {
    if (!this.about.band) return [];
    const [low, high] = this.about.band.map((field) => 1 + this.about.series.findIndex((series) => series.field === field));
    return [{ series: [high, low], fill: () => `${colour(`--c${(high - 1) % 6}`)}2e` }];
  }

  /* The limit, and what happened, over the lines. */
  over(plot) {
    const { ctx } = plot, box = plot.bbox, wide = devicePixelRatio || 1;
    const line = (x0, y0, x1, y1, name, dash) => {
      ctx.save();
      ctx.strokeStyle = colour(name);
      ctx.lineWidth = 1.4 * wide;
      ctx.setLineDash(dash.map((each) => each * wide));
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
      ctx.restore();
    };
    if (this.about.limit !== null) {
      const y = plot.valToPos(this.about.limit, "y", true);
      line(box.left, y, box.left + box.width, y, "--bad", [6, 4]);
    }
    for (const mark of this.marks) {
      if (mark.at_s < this.window[0] || mark.at_s > this.window[1]) continue;
      const x = plot.valToPos(mark.at_s, "x", true), name = mark.level === "warn" ? "--warn" : mark.level === "bad" ? "--bad" : "--dim";
      line(x, box.top, x, box.top + box.height, name, [2, 3]);
      ctx.fillStyle = colour(name);
      ctx.beginPath();
      ctx.moveTo(x - 5 * wide, box.top);
      ctx.lineTo(x + 5 * wide, box.top);
      ctx.lineTo(x, box.top + 7 * wide);
      ctx.fill();
    }
  }

  tell(at) {
    const chosen = at ?? null;
    this.about.series.forEach((series, number) => {
      const values = this.raw[number];
      const index = chosen ?? latest(values);
      this.values[number].textContent = shown(values[index], this.about.unit);
    });
    if (chosen !== null) return;
    const text = this.about.series.map((series, number) => {
      const values = this.raw[number].filter((value) => value !== null && value !== undefined);
      return `${series.label} ${shown(values[values.length - 1], this.about.unit)}, at most ${shown(values.length ? values.reduce((a, b) => Math.max(a, b)) : null, this.about.unit)}`;
    });
    this.place.setAttribute("aria-label", `${this.about.title}${this.about.unit ? `, ${this.about.unit}` : ""}: ${text.join("; ")}`);
  }

  move(event) {
    if (!this.plot || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    const now = this.plot.cursor.idx ?? this.times.length - 1;
    const to = Math.min(Math.max(now + (event.key === "ArrowLeft" ? -1 : 1), 0), this.times.length - 1);
    this.plot.setCursor({ left: this.plot.valToPos(this.times[to], "x"), top: 10 });
  }

  restyle() {
    if (this.plot) this.plot.redraw();
  }

  end() {
    this.seen.disconnect();
    if (this.plot) this.plot.destroy();
    this.card.remove();
  }
}

function latest(values) {
  let at = values.length - 1;
  while (at > 0 && (values[at] === null || values[at] === undefined)) at -= 1;
  return at;
}

function clock(seconds, span) {
  const wanted = { hour: "2-digit", minute: "2-digit", second: span < 1800 ? "2-digit" : undefined, timeZone: "UTC" };
  return new Date(seconds * 1e3).toLocaleTimeString("en-GB", wanted);
}

/* Points of two columns, as one path of dots. */
function drawScatter(place, scatter) {
  const [wide, high, left, below, above] = [520, 320, 58, 40, 12];
  const range = (values) => {
    const [low, top] = [Math.min(...values), Math.max(...values)];
    const room = (top - low || Math.abs(top) || 1) * 0.05;
    return [low - room, top + room];
  };
  const xs = scatter.points.map((point) => point[0]), ys = scatter.points.map((point) => point[1]);
  const [x0, x1] = range(xs.length ? xs : [0, 1]), [y0, y1] = range(ys.length ? ys : [0, 1]);
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (wide - left - 10);
  const y = (value) => high - below - ((value - y0) / (y1 - y0)) * (high - below - above);
  const dots = scatter.points.map((point) => `M${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}h0`).join("");
  const drawn = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const svg = drawn("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${scatter.title}: ${scatter.columns[0]} from ${shown(Math.min(...xs))} to ${shown(Math.max(...xs))}, ${scatter.columns[1]} from ${shown(Math.min(...ys))} to ${shown(Math.max(...ys))}` });
  svg.append(drawn("path", { d: `M${left} ${above}V${high - below}H${wide - 10}`, fill: "none", stroke: "var(--line)" }));
  svg.append(drawn("path", { d: dots, stroke: "var(--c0)", "stroke-width": 6, "stroke-linecap": "round", "stroke-opacity": 0.75 }));
  svg.append(drawn("text", { x: left, y: high - below + 15 }, shown(x0)), drawn("text", { x: wide - 10, y: high - below + 15, "text-anchor": "end" }, shown(x1)));
  svg.append(drawn("text", { x: left - 6, y: high - below, "text-anchor": "end" }, shown(y0)), drawn("text", { x: left - 6, y: above + 10, "text-anchor": "end" }, shown(y1)));
  svg.append(drawn("text", { x: (left + wide) / 2, y: high - 6, "text-anchor": "middle" }, scatter.columns[0]));
  svg.append(drawn("text", { x: 14, y: high / 2 - 10, "text-anchor": "middle", transform: `rotate(-90 14 ${high / 2 - 10})` }, scatter.columns[1]));
  place.replaceChildren(made("h3", "", scatter.title), svg);
}
