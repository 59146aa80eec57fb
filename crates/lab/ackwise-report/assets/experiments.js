(() => {
  const { make, dark, hues, short, tick, axis, watch, looks, dash, points, key } = kit;
  const figures = kit.data || [];

  // What a paper printed has the colour of ours of the same name; so have a line and points of one
  // name. Two that would look the same are told apart.
  const looksOf = (lines) => {
    const palette = hues[dark.matches ? "dark" : "light"];
    const names = [], taken = new Set();
    const places = lines.map((line) => {
      const name = line.name.replace(/,? published$/, "");
      const kind = ["published", "points"].includes(line.style) ? line.style : "line";
      for (let copy = 0; ; copy++) {
        const id = JSON.stringify([name, copy]);
        if (taken.has(id + kind)) continue;
        taken.add(id + kind);
        if (!names.includes(id)) names.push(id);
        return names.indexOf(id);
      }
    });
    const all = looks(names.map((_, i) => palette[i % palette.length]));
    return places.map((place) => all[place]);
  };

  const draw = (figure, holder, legend) => {
    const lines = figure.series;
    const look = looksOf(lines);
    const published = (i) => lines[i].style === "published";
    const strokes = (i) => lines[i].style !== "points";
    const every = (i) => !strokes(i) || lines[i].x.length <= 24;
    // A band is two more lines without a stroke, filled between.
    const tables = [], series = [{}], bands = [];
    lines.forEach((line, i) => {
      const columns = [line.x, line.y];
      const at = series.length;
      series.push({
        label: line.name, stroke: look[i].colour,
        width: strokes(i) ? 1.7 : 0,
        dash: dash(look[i], published(i)),
        paths: line.style === "steps" ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: every(i) || look[i].turn ? points(look[i], published(i), every(i)) : { show: false },
        // Lines have their own x; what another line has in between is no gap of theirs.
        spanGaps: true, line: i,
      });
      if (line.band) {
        columns.push(line.band[0], line.band[1]);
        const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
        series.push({ ...edge, label: "" }, { ...edge, label: "" });
        bands.push({ series: [at + 2, at + 1], fill: look[i].colour + "2e" });
      }
      tables.push(columns);
    });
    const data = uPlot.join(tables);
    const shown = series.map((s, at) => ({ s, at })).filter(({ s }) => s.line !== undefined);
    const items = shown.map(({ s }) => {
      const item = make("span"), i = s.line;
      const swatch = key(look[i], {
        published: published(i), strokes: strokes(i), marked: every(i) || look[i].turn > 0,
      });
      const value = make("span");
      item.append(swatch, s.label + " ", value);
      return { item, value };
    });
    const where = make("span", "where");
    legend.replaceChildren(...items.map(({ item }) => item), where);
    const show = (i) => {
      const off = i === null || i === undefined;
      where.textContent = off ? "" : "at " + short(data[0][i]);
      shown.forEach(({ at }, n) => {
        const v = off ? null : data[at][i];
        items[n].value.textContent = v === null || v === undefined ? "" : short(v);
      });
    };
    // Error bars: a stroke from low to high with a cap at each end; the axis has room for them.
    const barred = lines.map((line, i) => ({ line, i })).filter(({ line }) => line.bars);
    const errorBars = (u) => {
      const c = u.ctx, px = devicePixelRatio;
      c.save();
      c.beginPath();
      c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      c.clip();
      for (const { line, i } of barred) {
        c.strokeStyle = look[i].colour;
        c.lineWidth = 1.2 * px;
        line.x.forEach((value, n) => {
          const x = u.valToPos(value, "x", true);
          const ends = line.bars.map((side) => u.valToPos(side[n], "y", true));
          c.beginPath();
          c.moveTo(x, ends[0]);
          c.lineTo(x, ends[1]);
          for (const y of ends) {
            c.moveTo(x - 3 * px, y);
            c.lineTo(x + 3 * px, y);
          }
          c.stroke();
        });
      }
      c.restore();
    };
    const tops = barred.flatMap(({ line }) => line.bars.flat());
    const log = (a) => a.log ? { distr: 3, log: 10 } : {};
    const clean = (u, vs) => vs.map((v) => v === null ? "" : tick(v));
    const range = (u, low, high) => {
      if (low === null) return [0, 1];
      low = Math.min(low, ...tops);
      high = Math.max(high, ...tops);
      const pad = (high - low || Math.abs(high) || 1) * 0.06;
      return [low >= 0 ? Math.min(figure.y.begin ?? 0, low) : low - pad, high <= 0 && low < 0 ? 0 : high + pad];
    };
    holder.replaceChildren();
    holder.plot = new uPlot({
      width: Math.max(200, Math.floor(holder.clientWidth)), height: 230, padding: [8, 12, 0, 0],
      legend: { show: false }, focus: { alpha: 0.4 },
      cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false } },
      scales: { x: { time: false, ...log(figure.x) }, y: figure.y.log ? log(figure.y) : { range } },
      axes: [
        axis({ label: figure.x.label, labelSize: 18, size: 30, gap: 4, values: clean }),
        axis({ label: figure.y.label, labelSize: 18, size: 48, gap: 4, values: clean }),
      ],
      series, bands, hooks: { setCursor: [(u) => show(u.cursor.idx)], draw: [errorBars] },
    }, data, holder);
    watch.observe(holder);
  };

  const all = [];
  for (const figure of figures) {
    const node = document.getElementById("figure-" + figure.id);
    if (!node || !figure.series.length) continue;
    const legend = make("div", "legend"), holder = make("div");
    node.querySelector(".canvas").append(legend, holder);
    all.push(() => draw(figure, holder, legend));
  }
  all.forEach((f) => f());
  dark.addEventListener("change", () => all.forEach((f) => f()));
})();
