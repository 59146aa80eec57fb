// Draws what the page's data hold.
(() => {
  const { css, make, dark, hues, short, tick, axis, watch, looks, dash, points, key, hatch, data } = kit;
  if (!data || !data.groups.length) return;
  const el = (id) => document.getElementById(id);
  const bytes = (n) => n >= 1e6 ? short(n / 1e6).replace(/\.0+$/, "") + " MB"
    : n >= 1e3 ? short(n / 1e3).replace(/\.0+$/, "") + " kB" : n + " B";

  // ---- looks: arms that differ in one number get shades of one hue, light to dark ----
  const ramps = {
    light: ["#e3b56b", "#d99327", "#c0700a", "#964f06", "#6b3605", "#451f02"],
    dark: ["#fbe3b3", "#f5c869", "#e8a52c", "#c9820f", "#a5650a", "#804c0a"],
  };
  const armLooks = () => {
    const theme = dark.matches ? "dark" : "light";
    const families = new Map();
    for (const arm of data.arms) {
      const match = /^(.*?)-?(\d+(?:\.\d+)?)$/.exec(arm);
      if (match) families.set(match[1], [...(families.get(match[1]) || []), arm]);
    }
    const of = {};
    for (const members of families.values()) {
      if (members.length < 2) continue;
      const ramp = ramps[theme];
      members.forEach((arm, i) => {
        of[arm] = ramp[members.length === 1 ? 2 : Math.round(i * (ramp.length - 1) / (members.length - 1))];
      });
    }
    let next = 0;
    // Where there are shades, the hues next to theirs are left out.
    const shaded = Object.keys(of).length > 0;
    const free = hues[theme].filter((_, i) => !(shaded && [1, 4, 7].includes(i)));
    for (const arm of data.arms) {
      if (arm === "baseline") of[arm] = css("--base");
      else if (!of[arm]) of[arm] = free[next++ % free.length];
    }
    const all = looks(data.arms.map((arm) => of[arm]));
    return Object.fromEntries(data.arms.map((arm, i) => [arm, all[i]]));
  };
  let look = armLooks();
  const paintArms = () => {
    for (const node of document.querySelectorAll("[data-arm]")) {
      node.style.setProperty("--arm", look[node.dataset.arm].colour);
      node.style.setProperty("--fill", hatch(look[node.dataset.arm]));
    }
  };

  // ---- controls ----
  const segmented = (box, labels, selected, choose) => {
    box.replaceChildren();
    if (labels.length < 2) return;
    labels.forEach((label, i) => {
      const button = make("button", "", label);
      button.type = "button";
      button.setAttribute("aria-pressed", String(i === selected));
      button.addEventListener("click", () => {
        for (const other of box.children) other.setAttribute("aria-pressed", String(other === button));
        choose(i);
      });
      box.append(button);
    });
  };
  const armChips = (box, arms, chosen, changed) => {
    box.replaceChildren();
    for (const arm of arms) {
      const button = make("button");
      button.type = "button";
      button.dataset.arm = arm;
      button.append(make("i", "swatch"), arm);
      button.setAttribute("aria-pressed", String(chosen.has(arm)));
      button.addEventListener("click", () => {
        if (chosen.has(arm)) chosen.delete(arm); else chosen.add(arm);
        button.setAttribute("aria-pressed", String(chosen.has(arm)));
        changed();
      });
      box.append(button);
    }
  };
  // Few lines tell more than many: the baseline, ours, and one of the rest.
  const firstChoice = (arms) => {
    const chosen = new Set(arms.filter((arm) => arm === "baseline" || arm === "adaptive"));
    for (const arm of [...arms].reverse()) {
      if (chosen.size >= 3) break;
      chosen.add(arm);
    }
    return chosen;
  };

  // ---- bars ----
  const measures = [
    ["goodput", "Goodput", "Mbit/s", 1e-6, "Longer is better."],
    ["acks", "ACKs", "on the wire", 1, "Fewer ACKs cost less; but an arm that carries more data needs more."],
    ["acks-per-segment", "ACKs per segment", "ACKs for 100 data segments", 100, "Shorter is cheaper. A stock receiver sends about 50."],
    ["uplink-share", "Uplink share", "% of the uplink's rate used by ACKs", 100, "At 100 % the ACKs, not the data, set the pace."],
    ["completions", "Completions", "transfers", 1, "Longer is better: what never finished has no time below."],
    ["late-share", "Late chunks", "% of those that were due", 100, "Shorter is better."],
    ["completion-p50", "Completion, median", "ms", 1e-3, "Shorter is better."],
    ["completion-p99", "Completion, p99", "ms", 1e-3, "Shorter is better."],
    ["rtt-p50", "RTT, median", "ms", 1e-3, "As the sender measured it: queues in both directions are part of it."],
    ["rtt-p99", "RTT, p99", "ms", 1e-3, "As the sender measured it: queues in both directions are part of it."],
    ["retransmits", "Retransmits", "segments", 1, "Shorter is better."],
    ["cpu-per-gigabyte", "CPU", "s per GB, all nodes", 1, "Processes and network stack of all nodes."],
  ].filter(([key]) => data.groups.some((g) => g.rows.some((r) => r.values[key])));
  const completes = measures.some(([key]) => key === "completion-p50");
  // Where everything is about completion, goodput says nothing of its own.
  if (data.only_completes) measures.splice(0, 1);
  if (completes) measures.sort((a, b) => b[0].startsWith("completion") - a[0].startsWith("completion"));

  const drawBars = (index) => {
    const [key, name, unit, scale, hint] = measures[index];
    const rows = data.groups.flatMap((g) => g.rows);
    const greatest = Math.max(...rows.map((r) => r.values[key] ? r.values[key].max * scale : 0)) || 1;
    const panels = data.groups.map((group) => {
      const panel = make("div", "panel");
      const title = make("h3", "", group.title + " ");
      title.append(make("span", "", `· ${name}, ${unit}`.replace("ACKs, on", "ACKs on")));
      const bars = make("div", "bars");
      const base = group.rows.find((r) => r.arm === "baseline");
      for (const row of group.rows) {
        const stat = row.values[key];
        const track = make("div", "track");
        track.dataset.arm = row.arm;
        if (stat) {
          const bar = make("i");
          bar.style.width = `${100 * stat.median * scale / greatest}%`;
          track.append(bar);
          if (stat.count > 1) {
            const range = make("b");
            range.style.left = `${100 * stat.min * scale / greatest}%`;
            range.style.width = `${100 * (stat.max - stat.min) * scale / greatest}%`;
            track.append(range);
          }
          if (base && base !== row && base.values[key]) {
            const mark = make("u");
            mark.style.left = `${100 * base.values[key].median * scale / greatest}%`;
            track.append(mark);
          }
        }
        bars.append(make("span", "name", row.arm), track, make("span", "value", stat ? short(stat.median * scale) : "–"));
      }
      panel.append(title, bars);
      return panel;
    });
    el("bar-panels").replaceChildren(...panels);
    const spread = rows.some((r) => r.values[key] && r.values[key].count > 1);
    el("bar-hint").textContent = hint
      + (rows.some((r) => r.arm === "baseline") ? " Dashed: the baseline." : "")
      + (spread ? " Thin line: range over seeds." : "");
    paintArms();
  };
  let barMeasure = 0;
  if (measures.length) {
    el("bars").hidden = false;
    segmented(el("bar-metric"), measures.map((m) => m[1]), 0, (i) => drawBars(barMeasure = i));
    drawBars(0);
  }

  // ---- plots ----
  const stroke = (arm) => arm === "baseline" ? [5, 3] : dash(look[arm]);
  // One plot: `lines` are {arm, ys}, all over the same xs.
  // Of the ticks of a logarithmic axis those that begin with 1, 2 or 5, if they are enough.
  const roundTicks = (all) => {
    const first = (v) => Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9));
    const kept = all.map((v) => [1, 2, 5].includes(first(v)) ? v : null);
    return kept.filter((v) => v !== null).length > 2 ? kept : all;
  };
  const draw = (box, { title, unit, xs, lines, xLabel, x, xFormat, yRange, sync, log, yFormat, restAt }) => {
    const card = make("div", "plot");
    const head = make("h3", "", title + " ");
    head.append(make("span", "", "· " + unit));
    const readout = make("div", "readout");
    const holder = make("div");
    card.append(head, readout, holder);
    box.append(card);
    const rest = Math.max(0, restAt ? restAt(lines) : xs.length - 1);
    const showAt = (i) => {
      readout.replaceChildren();
      // Without a pointer the end is shown: it names the lines, and the plot stays in place.
      if (i === null || i === undefined) i = rest;
      readout.append(make("span", "", xFormat(xs[i])));
      for (const { arm, ys } of lines) {
        const item = make("span");
        item.append(key(look[arm], { strokes: true, pattern: stroke(arm), marked: look[arm].turn > 0 }), `${arm} ${(yFormat || short)(ys[i])}`);
        readout.append(item);
      }
    };
    holder.plot = new uPlot({
      width: Math.max(200, Math.floor(holder.clientWidth)), height: 210,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false }, ...(sync ? { sync: { key: sync } } : {}) },
      scales: { x: { time: false, ...x }, y: { range: yRange || ((u, low, high) => [0, high > 0 ? high * 1.06 : 1]) } },
      axes: [
        axis({ label: xLabel, labelSize: 18, size: 30, gap: 4, values: (u, vs) => vs.map((v) => v === null ? "" : tick(v)), ...(log ? { space: 34, filter: (u, vs) => roundTicks(vs) } : {}) }),
        axis({ size: 46, gap: 4, values: (u, vs) => vs.map((v) => v === null ? "" : tick(v)) }),
      ],
      series: [{}, ...lines.map(({ arm }) => ({
        label: arm, stroke: look[arm].colour, width: arm === "baseline" ? 1.6 : 1.8,
        dash: stroke(arm), points: look[arm].turn ? points(look[arm]) : { show: false }, spanGaps: true,
      }))],
      hooks: { setCursor: [(u) => showAt(u.cursor.idx)] },
    }, [xs, ...lines.map((l) => l.ys)], holder);
    showAt(null);
    watch.observe(holder);
  };

  const timePlots = [
    ["goodput_bps", "Goodput", "Mbit/s", 1e-6],
    ["ack_rate_hz", "ACKs on the wire", "per second", 1],
    ["rtt_us", "Round-trip time", "ms, smoothed, at the sender", 1e-3],
    ["cwnd_segments", "Congestion window", "segments", 1],
  ];
  const withSeries = data.runs.filter((r) => r.series);
  const redraws = [];
  if (withSeries.length) {
    el("time").hidden = false;
    const groups = [...new Set(withSeries.map((r) => r.group))];
    const seeds = [...new Set(withSeries.map((r) => r.seed))];
    const arms = data.arms.filter((arm) => withSeries.some((r) => r.arm === arm));
    const chosen = firstChoice(arms);
    let group = groups[0], seed = seeds[0];
    const redraw = () => {
      const box = el("time-plots");
      box.replaceChildren();
      const runs = arms.filter((arm) => chosen.has(arm))
        .map((arm) => withSeries.find((r) => r.arm === arm && r.group === group && r.seed === seed))
        .filter(Boolean);
      if (!runs.length) {
        box.append(make("p", "nothing", "Choose an arm."));
        return;
      }
      for (const [key, title, unit, scale] of timePlots) {
        const shown = runs.filter((r) => r.series[key] && r.series[key].some((v) => v !== null));
        if (!shown.length) continue;
        const scaled = shown.map((r) => [r.series.t_s, r.series[key].map((v) => v === null ? null : v * scale)]);
        const joined = uPlot.join(scaled);
        draw(box, {
          title, unit, xs: joined[0], xLabel: "time, s", xFormat: (t) => `${short(t)} s`, sync: "time",
          lines: shown.map((r, i) => ({ arm: r.arm, ys: joined[i + 1] })),
        });
      }
    };
    segmented(el("time-group"), groups.map((g) => data.groups[g].title), 0, (i) => { group = groups[i]; redraw(); });
    segmented(el("time-seed"), seeds.map((s) => `seed ${s}`), 0, (i) => { seed = seeds[i]; redraw(); });
    armChips(el("time-arms"), arms, chosen, redraw);
    redraw();
    redraws.push(redraw);
  }

  const withTimes = data.runs.filter((r) => r.completion);
  if (withTimes.length) {
    el("completion").hidden = false;
    const groups = [...new Set(withTimes.map((r) => r.group))];
    const arms = data.arms.filter((arm) => withTimes.some((r) => r.arm === arm));
    const chosen = new Set(arms.length > 6 ? firstChoice(arms) : arms);
    let group = groups[0];
    const redraw = () => {
      const box = el("completion-plots");
      box.replaceChildren();
      const runs = withTimes.filter((r) => r.group === group);
      const sizes = [...new Set(runs.flatMap((r) => r.completion.map((c) => c.bytes)))].sort((a, b) => a - b);
      for (const size of sizes) {
        // The seeds of an arm count as one sample.
        const samples = arms.filter((arm) => chosen.has(arm)).map((arm) => ({
          arm,
          times: runs.filter((r) => r.arm === arm)
            .flatMap((r) => r.completion.filter((c) => c.bytes === size).flatMap((c) => c.cdf_ms))
            .sort((a, b) => a - b),
        })).filter((s) => s.times.length);
        if (!samples.length) continue;
        const low = Math.max(1e-3, Math.min(...samples.map((s) => s.times[0])) * 0.97);
        const high = Math.max(...samples.map((s) => s.times[s.times.length - 1])) * 1.03;
        const wide = high / low > 12;
        const xs = Array.from({ length: 400 }, (_, i) => wide ? low * (high / low) ** (i / 399) : low + (high - low) * i / 399);
        const lines = samples.map(({ arm, times }) => {
          let n = 0;
          return { arm, ys: xs.map((x) => { while (n < times.length && times[n] <= x) n++; return 100 * n / times.length; }) };
        });
        draw(box, {
          title: bytes(size), unit: "% of transfers done", xs, lines, xLabel: wide ? "time, ms (logarithmic)" : "time, ms",
          x: wide ? { distr: 3, log: 10 } : {}, log: wide, xFormat: (t) => `${short(t)} ms`, yRange: () => [0, 102],
          // At rest: where the first arm has half of its transfers done.
          yFormat: (v) => `${short(v)} %`, restAt: ([first]) => first.ys.findIndex((v) => v >= 50),
        });
      }
      if (!box.children.length) box.append(make("p", "nothing", "Choose an arm."));
    };
    segmented(el("completion-group"), groups.map((g) => data.groups[g].title), 0, (i) => { group = groups[i]; redraw(); });
    armChips(el("completion-arms"), arms, chosen, redraw);
    redraw();
    redraws.push(redraw);
  }

  const drawn = data.draws || [];
  if (drawn.length) {
    el("draws-plot").hidden = false;
    const scores = [...new Set(drawn.map((d) => d.score))];
    const arms = data.arms.filter((arm) => drawn.some((d) => d.arms[arm]));
    const chosen = new Set(arms.length > 6 ? firstChoice(arms) : arms);
    let score = scores[0];
    const redraw = () => {
      const box = el("draws-plots");
      box.replaceChildren();
      for (const { against, arms: curves } of drawn.filter((d) => d.score === score)) {
        const shown = arms.filter((arm) => chosen.has(arm) && curves[arm]);
        // A ratio of zero has no place on a logarithmic axis: it is left of all others.
        const all = shown.flatMap((arm) => curves[arm].ratios).filter((v) => v > 0);
        if (!shown.length) continue;
        const low = Math.min(1, ...all) * 0.97, high = Math.max(1, ...all) * 1.03;
        const wide = high / low > 12;
        const xs = Array.from({ length: 400 }, (_, i) => wide ? low * (high / low) ** (i / 399) : low + (high - low) * i / 399);
        const lines = shown.map((arm) => {
          const { ratios, lines: count } = curves[arm];
          let n = 0;
          return { arm, ys: xs.map((x) => { while (n < ratios.length && ratios[n] <= x) n++; return 100 * n / count; }) };
        });
        draw(box, {
          title: against, unit: "% of lines up to a ratio", xs, lines, xLabel: wide ? "ratio (logarithmic)" : "ratio",
          x: wide ? { distr: 3, log: 10 } : {}, log: wide, xFormat: short, yRange: () => [0, 102],
          // At rest: how many lines lose.
          yFormat: (v) => `${short(v)} %`, restAt: () => xs.findIndex((v) => v >= 1) - 1,
        });
      }
      if (!box.children.length) box.append(make("p", "nothing", "Choose an arm."));
    };
    segmented(el("draws-score"), scores, 0, (i) => { score = scores[i]; redraw(); });
    armChips(el("draws-arms"), arms, chosen, redraw);
    redraw();
    redraws.push(redraw);
  }

  paintArms();
  dark.addEventListener("change", () => {
    look = armLooks();
    if (measures.length) drawBars(barMeasure);
    redraws.forEach((redraw) => redraw());
    paintArms();
  });
})();
