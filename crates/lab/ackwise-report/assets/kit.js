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
  const data = JSON.parse(document.getElementById("data").textContent);
  return { css, make, dark, hues, short, tick, axis, watch, data };
})();
