"use strict";
// What the scripts of all pages share: numbers, colours, axes, and plots that
// follow their box. Nothing is fetched.
const kit = (() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Okabe and Ito's hues, safe for the colour-blind.
  const hues = {
    light: ["#0072b2", "#d55e00", "#009e73", "#b8568f", "#a67c00", "#2f8fc4", "#5b4bb5", "#7a5230"],
    dark: ["#4fa8e0", "#f0894a", "#35c79b", "#d98bb8", "#e0b83c", "#86ccf2", "#a99df0", "#c79b72"],
  };
  const short = (v) => {
    if (v === null || v === undefined || !isFinite(v)) return "–";
    const a = Math.abs(v);
    if (a >= 1000) return Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
    if (a >= 100) return v.toFixed(0);
    if (a >= 10) return v.toFixed(1);
    if (a >= 0.1 || a === 0) return v.toFixed(2);
    return v.toFixed(3);
  };
  const tick = (v) => {
    const a = Math.abs(v);
    if (a >= 1e6) return +(v / 1e6).toPrecision(3) + "M";
    if (a >= 1e4) return +(v / 1e3).toPrecision(3) + "k";
    return String(+v.toPrecision(6));
  };
  const font = "12px system-ui, -apple-system, Segoe UI, Roboto, sans-serif";
  const axis = (extra) => ({
    stroke: css("--soft"), font, labelFont: font,
    grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1, size: 5 },
    ...extra,
  });
  // Each observed holder has its plot as the property `plot`.
  const watch = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const plot = target.plot;
      if (plot && Math.abs(plot.width - contentRect.width) > 1) {
        plot.setSize({ width: Math.floor(contentRect.width), height: plot.height });
      }
    }
  });
  // Where there are more series than colours, several have one colour: those that take it for the second
  // time are of turn 1, and so on. Strokes, markers and hatches of two turns differ.
  const looks = (colours) => colours.map((colour, i) => (
    { colour, turn: colours.slice(0, i).filter((earlier) => earlier === colour).length }
  ));
  // A stroke, and a dot for each turn. What was published is dashed.
  const dash = ({ turn }, published) => {
    const dots = Array.from({ length: turn }, () => published ? [1, 4] : [2, 3]).flat();
    return published ? [5, 4, ...dots] : turn ? [14, 3, ...dots] : undefined;
  };
  // Outlines around 0,0 as SVG and canvas take them. From the sixth turn on markers are hollow.
  const markers = [
    (r) => `m${-r},0a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0z`,
    (r) => `m${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    (r) => `m0,${-1.3 * r}l${1.3 * r},${2.2 * r}h${-2.6 * r}z`,
    (r) => `m0,${-1.4 * r}l${1.4 * r},${1.4 * r}l${-1.4 * r},${1.4 * r}l${-1.4 * r},${-1.4 * r}z`,
    (r) => `m0,${1.3 * r}l${1.3 * r},${-2.2 * r}h${-2.6 * r}z`,
  ];
  const marker = ({ turn }) => markers[turn % markers.length];
  const fill = ({ colour, turn }, published) =>
    published || Math.floor(turn / markers.length) % 2 ? css("--card") : colour;
  // The markers of a line: at each point, or some way apart.
  const points = (look, published, every) => {
    const filter = (u, at, show) => {
      const [from, to] = u.series[0].idxs, apart = 64 * devicePixelRatio;
      const kept = [];
      let next = u.bbox.left + apart * ((0.3 + 0.37 * at) % 1);
      for (let i = from; show && i <= to; i++) {
        const x = u.data[at][i] === null || u.data[at][i] === undefined ? -1 : u.valToPos(u.data[0][i], "x", true);
        if (x < next) continue;
        kept.push(i);
        next = x + apart;
      }
      return kept;
    };
    const paths = (u, at, from, to, kept) => {
      const path = new Path2D(), r = 3 * devicePixelRatio;
      for (let i = from; i <= to; i++) {
        const y = u.data[at][i];
        if (y === null || y === undefined || (kept && !kept.includes(i))) continue;
        path.addPath(new Path2D(`M${u.valToPos(u.data[0][i], "x", true)},${u.valToPos(y, "y", true)}` + marker(look)(r)));
      }
      return { fill: path, stroke: path };
    };
    return {
      show: true, size: 7, width: 1.2, stroke: look.colour, fill: fill(look, published), paths, ...(every ? {} : { filter }),
    };
  };
  // The name space of SVG, as the parser knows it: the page names no address.
  const svgSpace = Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
  // A line of a legend: its stroke and its marker.
  const key = (look, { published, strokes, pattern, marked }) => {
    const draw = (tag, attributes) => {
      const node = document.createElementNS(svgSpace, tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      return node;
    };
    const dashes = pattern || dash(look, published);
    // Wide enough for all dots.
    const width = strokes ? Math.max(22, 1 + (dashes || []).reduce((sum, part) => sum + part, 0)) : 12;
    const svg = draw("svg", { class: "key", width, height: 11 });
    if (strokes) {
      svg.append(draw("path", { d: `M0,5.5h${width}`, stroke: look.colour, "stroke-width": 2, "stroke-dasharray": (dashes || []).join() }));
    }
    if (marked) {
      svg.append(draw("path", {
        d: `M${width / 2},5.5` + marker(look)(3), stroke: look.colour, "stroke-width": 1.2, fill: fill(look, published),
      }));
    }
    return svg;
  };
  // The background of a bar: plain, or hatched in one of four directions, coarser after each four turns.
  const hatch = ({ colour, turn }) => {
    if (!turn) return colour;
    const part = 2 + Math.floor((turn - 1) / 4);
    return `repeating-linear-gradient(${[45, 135, 90, 0][(turn - 1) % 4]}deg, ${colour} 0 ${part}px, `
      + `color-mix(in srgb, ${colour} 25%, var(--card)) 0 ${2 * part}px)`;
  };
  const data = JSON.parse(document.getElementById("data").textContent);
  return { css, make, dark, hues, short, tick, axis, watch, looks, dash, points, key, hatch, data };
})();
