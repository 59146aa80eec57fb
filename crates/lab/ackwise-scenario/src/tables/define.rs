//! Defines the tables of a record: the name, unit and meaning of every column, in this one place.

use std::collections::BTreeSet;

use super::columns::{Column, Columns};
use crate::record::{AckKinds, NodeRecord, Quantiles, QueueRecord, Report, Run, Series, Traffic};

const MICRO: &str = "µs";
const SECOND: &str = "s";
const SEGMENTS: &str = "segments";
const PACKETS: &str = "packets";
const BYTES: &str = "B";
const RATE: &str = "bit/s";
const HERTZ: &str = "1/s";
const JOULE: &str = "J";
const NONE: &str = "";

/// A run as a whole, or one flow of it.
struct Row<'a> {
    report: &'a Report,
    run: &'a Run,
    flow: Option<&'a str>,
    cc: &'a str,
    traffic: &'a Traffic,
    whole: bool,
}

impl<'a> Row<'a> {
    fn whole(report: &'a Report, run: &'a Run) -> Self {
        Self {
            report,
            run,
            flow: run.flow.as_deref(),
            cc: &run.cc,
            traffic: &run.totals,
            whole: true,
        }
    }

    fn flows(report: &'a Report, run: &'a Run) -> impl Iterator<Item = Self> {
        run.flows.iter().map(move |flow| Self {
            report,
            run,
            flow: Some(&flow.flow),
            cc: flow.cc.as_deref().unwrap_or(&run.cc),
            traffic: &flow.traffic,
            whole: false,
        })
    }
}

/// A row for each run.
pub(super) fn runs(report: &Report) -> Vec<Column> {
    let rows: Vec<Row<'_>> = (report.runs.iter())
        .map(|run| Row::whole(report, run))
        .collect();
    let mut columns = Columns::new(&rows);
    let id = "The run: arm, congestion control, seed, varied values";
    columns.text("id", id, |r| &r.run.id);
    which(&mut columns);
    draw(&mut columns);
    let paths: BTreeSet<&String> = rows.iter().flat_map(|r| r.run.point.keys()).collect();
    for path in paths {
        let name = format!("point.{path}");
        let about = format!("{path} at this point, as written");
        columns.maybe_text(&name, &about, |r| r.run.point.get(path).cloned());
    }
    result(&mut columns);
    columns.made()
}

/// A row for each run and, if it has several flows, one for each of them.
pub(super) fn runs_and_flows(report: &Report) -> Vec<Column> {
    let of = |run| std::iter::once(Row::whole(report, run)).chain(Row::flows(report, run));
    let rows: Vec<Row<'_>> = report.runs.iter().flat_map(of).collect();
    let mut columns = Columns::new(&rows);
    which(&mut columns);
    let about = "Varied values, PATH=VALUE; empty without any";
    columns.maybe_text("point", about, |r| Some(super::point(r.run)));
    draw(&mut columns);
    let about = "What all arms and repeats of a line share: the id without both";
    columns.maybe_text("line", about, |r| Some(r.run.line().to_owned()));
    result(&mut columns);
    columns.made()
}

fn draw<'a>(columns: &mut Columns<'a, Row<'a>>) {
    let about = "Number of the drawn point, from 1";
    columns.maybe_count("draw", NONE, about, |r| r.run.draw.map(u64::from));
}

/// The columns that identify the run.
fn which<'a>(columns: &mut Columns<'a, Row<'a>>) {
    columns.text("engine", "sim, virtual or live", |r| &r.report.engine);
    let scenario = "The scenario's name";
    columns.text("scenario", scenario, |r| &r.report.scenario.name);
    columns.text("arm", "The arm's name", |r| &r.run.arm);
    columns.text("cc", "Congestion control", |r| r.cc);
    columns.count("seed", NONE, "Seed", |r| r.run.seed);
}

/// The results. Columns that only whole runs have are unknown for their flows.
fn result<'a>(columns: &mut Columns<'a, Row<'a>>) {
    let flow = "The flow that the totals are of; empty if they are of several";
    columns.maybe_text("flow", flow, |r| r.flow.map(str::to_owned));
    traffic(columns, |r| r.traffic);
    let sum = |row: &Row<'_>, pick: fn(&NodeRecord) -> Option<f64>| {
        let known: Vec<f64> = row.run.nodes.iter().filter_map(pick).collect();
        (row.whole && !known.is_empty()).then(|| known.iter().sum())
    };
    let process = "CPU time of the nodes' processes";
    columns.maybe_number("cpu_process_s", SECOND, process, |r| {
        sum(r, |node| node.cpu_process_s)
    });
    let stack = "CPU time of the nodes' network stacks outside processes";
    columns.maybe_number("cpu_stack_s", SECOND, stack, |r| {
        sum(r, |node| node.cpu_stack_s)
    });
    let late = "99th percentile of how late the link emulator delivered";
    columns.maybe_number("link_lateness_p99_us", MICRO, late, |r| {
        r.run.link_lateness_us.filter(|_| r.whole).map(|q| q.p99)
    });
    let counters = "Counters of the datapath or of the simulated interfaces, as JSON";
    columns.maybe_text("datapath_json", counters, |r| {
        let counters = r.run.datapath.as_ref().filter(|_| r.whole);
        counters.map(ToString::to_string)
    });
    let wrong = "What went wrong; if anything did, the numbers are not to be trusted";
    columns.texts("errors", wrong, |r| match r.whole {
        true => r.run.errors.clone(),
        false => Vec::new(),
    });
}

/// The columns that runs and flows share.
fn traffic<R>(columns: &mut Columns<'_, R>, of: impl Fn(&R) -> &Traffic) {
    let about = "From the first data sent to the last received, or to the end of a run in which the flow stalled or was not finished";
    columns.number("duration_s", SECOND, about, |r| of(r).duration_s);
    let about = "Bytes that the receiving application read";
    columns.count("bytes", BYTES, about, |r| of(r).bytes);
    let about = "bytes · 8 / duration_s";
    columns.number("goodput_bps", RATE, about, |r| of(r).goodput_bps);
    let about = "Segments with payload that arrived, retransmitted ones too";
    columns.count("data_segments", SEGMENTS, about, |r| of(r).data_segments);
    let about = "Segments without payload, SYN, FIN or RST, from receiver to sender";
    columns.count("acks_on_wire", SEGMENTS, about, |r| of(r).acks_on_wire);
    let about = "data_segments / acks_on_wire";
    columns.maybe_number("segments_per_ack", NONE, about, |r| {
        of(r).segments_per_ack()
    });
    let about = "Bytes of the ACKs on the wire, from the IP header on";
    columns.maybe_count("ack_bytes_on_wire", BYTES, about, |r| {
        of(r).ack_bytes_on_wire
    });
    let about = "Share of the rate of the ACKs' narrowest link that ACKs used, 0 to 1";
    columns.maybe_number("uplink_share", NONE, about, |r| of(r).uplink_share);
    let about = "Segments that the sender sent again";
    columns.count("retransmits", SEGMENTS, about, |r| of(r).retransmits);
    let about = "Retransmission timeouts at the sender";
    columns.maybe_count("timeouts", NONE, about, |r| of(r).timeouts);
    let about = "Jain's index of the flows' goodputs; 1 if all get the same";
    columns.maybe_number("jain", NONE, about, |r| of(r).jain);
    let about = "the round-trip times that the sender measured";
    quantiles(columns, "rtt", about, |r| of(r).rtt_us);
    type Kind = (&'static str, &'static str, fn(&AckKinds) -> u64);
    let kinds: [Kind; 6] = [
        (
            "acks_pure",
            "ACKs that acknowledge more than any before",
            |a| a.pure,
        ),
        ("acks_sack", "ACKs that carry SACK blocks", |a| a.sack),
        ("acks_dup", "ACKs with the same number and window", |a| {
            a.dup
        }),
        (
            "acks_window_update",
            "ACKs with the same number and another window",
            |a| a.window_update,
        ),
        (
            "acks_old",
            "ACKs that acknowledge less than an earlier one",
            |a| a.old,
        ),
        ("acks_other", "Any other ACKs, e.g. window probes", |a| {
            a.other
        }),
    ];
    for (name, about, kind) in kinds {
        columns.maybe_count(name, SEGMENTS, about, |r| of(r).acks.as_ref().map(kind));
    }
    let done = |traffic: &Traffic| traffic.completion.clone();
    let about = "Transfers or exchanges that were completed";
    columns.maybe_count("completed", NONE, about, |r| done(of(r)).map(|it| it.count));
    let about = "Transfers or exchanges that were begun and not completed";
    columns.maybe_count("unfinished", NONE, about, |r| {
        done(of(r)).map(|it| it.unfinished)
    });
    let about = "Chunks that arrived after they were due, or not at all";
    columns.maybe_count("late", NONE, about, |r| done(of(r))?.late);
    let about = "the times that completed transfers or exchanges took";
    quantiles(columns, "completion", about, |r| done(of(r))?.times_us());
    let about = "Whether the receiver got what the sender sent";
    columns.maybe_flag("content_ok", about, |r| {
        of(r).content.as_ref().map(|it| it.ok)
    });
    let about = "SHA-256 of what was received";
    columns.maybe_text("content_sha256", about, |r| {
        of(r).content.as_ref()?.sha256.clone()
    });
}

/// A distribution.
fn quantiles<R>(
    columns: &mut Columns<'_, R>,
    name: &str,
    of_what: &str,
    of: impl Fn(&R) -> Option<Quantiles>,
) {
    type Part = (&'static str, &'static str, fn(Quantiles) -> Option<f64>);
    let parts: [Part; 5] = [
        ("p50", "Median", |q| Some(q.p50)),
        ("p99", "99th percentile", |q| Some(q.p99)),
        ("min", "Least", |q| q.min),
        ("mean", "Mean", |q| q.mean),
        ("max", "Greatest", |q| q.max),
    ];
    for (part, word, pick) in parts {
        let name = format!("{name}_{part}_us");
        let about = format!("{word} of {of_what}");
        columns.maybe_number(&name, MICRO, &about, |r| of(r).and_then(pick));
    }
    let (name, about) = (format!("{name}_count"), format!("Number of {of_what}"));
    columns.maybe_count(&name, NONE, &about, |r| of(r)?.count);
}

/// The flows of a run. If there is only one, its values are the run's totals.
fn flows_of<'a>(report: &'a Report, run: &'a Run) -> Vec<Row<'a>> {
    match run.flows.is_empty() {
        true => vec![Row::whole(report, run)],
        false => Row::flows(report, run).collect(),
    }
}

/// A row for each flow.
pub(super) fn flows(report: &Report) -> Vec<Column> {
    let of = |run| flows_of(report, run);
    let rows: Vec<Row<'_>> = report.runs.iter().flat_map(of).collect();
    let mut columns = Columns::new(&rows);
    columns.text("id", "The run", |r| &r.run.id);
    columns.maybe_text("flow", "The flow's name", |r| r.flow.map(str::to_owned));
    columns.text("cc", "Congestion control of its sender", |r| r.cc);
    traffic(&mut columns, |r| r.traffic);
    columns.made()
}

/// Values at a time, of a flow or of all flows of a run.
struct Moment<'a> {
    run: &'a Run,
    flow: Option<&'a str>,
    traffic: &'a Traffic,
    at: usize,
}

fn moments(run: &Run) -> Vec<Moment<'_>> {
    let totals = (run.flow.as_deref(), &run.totals);
    let flows = run.flows.iter().map(|it| (Some(&*it.flow), &it.traffic));
    let all = std::iter::once(totals).chain(flows);
    let moments = all.flat_map(|(flow, traffic)| {
        let count = traffic.series.as_ref().map_or(0, |it| it.t_s.len());
        (0..count).map(move |at| Moment {
            run,
            flow,
            traffic,
            at,
        })
    });
    moments.collect()
}

/// A row for each flow and time.
pub(super) fn series(report: &Report) -> Vec<Column> {
    let rows: Vec<Moment<'_>> = report.runs.iter().flat_map(moments).collect();
    let mut columns = Columns::new(&rows);
    columns.text("id", "The run", |r| &r.run.id);
    let about = "The flow; empty for the totals of several";
    columns.maybe_text("flow", about, |r| r.flow.map(str::to_owned));
    let about = "Since the start of the run";
    columns.maybe_number("t_s", SECOND, about, |r| {
        r.traffic.series.as_ref()?.t_s.get(r.at).copied()
    });
    let about = [
        (RATE, "Goodput during the interval that ends then"),
        (HERTZ, "ACKs on the wire during that interval"),
        (HERTZ, "Data segments on the wire during that interval"),
        (MICRO, "Smoothed round-trip time at the sender"),
        (SEGMENTS, "Congestion window"),
        (SEGMENTS, "Slow-start threshold; empty while it is infinite"),
        (SEGMENTS, "Segments in flight"),
        (SEGMENTS, "Retransmitted segments since the start"),
    ];
    let names = Series::default();
    let names = names.columns().map(|(name, _)| name);
    for (column, (name, (unit, about))) in names.into_iter().zip(about).enumerate() {
        columns.maybe_number(name, unit, about, |r| {
            let values = r.traffic.series.as_ref()?.columns()[column].1;
            values.get(r.at).copied().flatten()
        });
    }
    columns.made()
}

fn queues_of(report: &Report) -> impl Iterator<Item = (&Run, &QueueRecord)> {
    let runs = report.runs.iter();
    runs.flat_map(|run| run.queues.iter().map(move |queue| (run, queue)))
}

/// A row for each direction of a link.
pub(super) fn queues(report: &Report) -> Vec<Column> {
    let rows: Vec<_> = queues_of(report).collect();
    let mut columns = Columns::new(&rows);
    columns.text("id", "The run", |(run, _)| &run.id);
    let about = "link.forward or link.reverse";
    columns.text("queue", about, |(_, q)| &q.name);
    let about = "Packets that came";
    columns.maybe_count("arrivals", PACKETS, about, |(_, q)| q.arrivals);
    columns.maybe_count("max_packets", PACKETS, "Longest", |(_, q)| q.max_packets);
    let about = "Mean length over time";
    columns.maybe_number("mean_packets", PACKETS, about, |(_, q)| q.mean_packets);
    let about = "Packets dropped because it was full";
    columns.count("drops", PACKETS, about, |(_, q)| q.drops);
    let about = "Packets marked CE instead";
    columns.count("marks", PACKETS, about, |(_, q)| q.marks);
    let about = "Of drops, those that RED chose before it was full";
    columns.count("early_drops", PACKETS, about, |(_, q)| q.early_drops);
    let about = "ACKs that a filter removed for newer ones; not among drops";
    columns.maybe_count("filtered", PACKETS, about, |(_, q)| q.filtered);
    let about = "Packets that a policer or shaper dropped before it; not among drops";
    columns.maybe_count("policed", PACKETS, about, |(_, q)| q.policed);
    let about = "ACKs that were made at the far end";
    columns.maybe_count("reconstructed", PACKETS, about, |(_, q)| q.reconstructed);
    let about = "Packets lost on the wire, as the scenario asked";
    columns.maybe_count("losses", PACKETS, about, |(_, q)| q.losses);
    columns.made()
}

/// A row for each direction of a link and time.
pub(super) fn queue_series(report: &Report) -> Vec<Column> {
    let at_times = |(run, queue)| {
        let queue: &QueueRecord = queue;
        (0..queue.t_s.len()).map(move |at| (run, queue, at))
    };
    let rows: Vec<(&Run, _, usize)> = queues_of(report).flat_map(at_times).collect();
    let mut columns = Columns::new(&rows);
    columns.text("id", "The run", |(run, _, _)| &run.id);
    let about = "link.forward or link.reverse";
    columns.text("queue", about, |(_, q, _)| &q.name);
    let about = "Since the start of the run";
    columns.number("t_s", SECOND, about, |(_, q, at)| q.t_s[*at]);
    let about = "Length at that time";
    columns.maybe_number("length_packets", PACKETS, about, |(_, q, at)| {
        q.length_packets.get(*at).copied()
    });
    let about = "Packets that had come by then";
    columns.maybe_count("arrivals_so_far", PACKETS, about, |(_, q, at)| {
        q.arrivals_so_far.get(*at).copied()
    });
    let about = "Of drops, those by then; empty if there were none";
    columns.maybe_count("drops_so_far", PACKETS, about, |(_, q, at)| {
        q.drops_so_far.get(*at).copied()
    });
    let about = "Of marks, those by then; empty if there were none";
    columns.maybe_count("marks_so_far", PACKETS, about, |(_, q, at)| {
        q.marks_so_far.get(*at).copied()
    });
    let about = "Of filtered, those by then; empty if there were none";
    columns.maybe_count("filtered_so_far", PACKETS, about, |(_, q, at)| {
        q.filtered_so_far.get(*at).copied()
    });
    columns.made()
}

/// A row for each number of segments that ACKs acknowledged.
pub(super) fn stretch(report: &Report) -> Vec<Column> {
    let flows = report.runs.iter().flat_map(|run| flows_of(report, run));
    let of = |flow: Row<'_>| {
        let bins = flow.traffic.stretch.clone().unwrap_or_default();
        let (id, name) = (flow.run.id.clone(), flow.flow.map(str::to_owned));
        let row = move |bin| (id.clone(), name.clone(), bin);
        bins.into_iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<_> = flows.flat_map(of).collect();
    let mut columns = Columns::new(&rows);
    columns.text("id", "The run", |(id, _, _)| id);
    columns.maybe_text("flow", "The flow's name", |(_, flow, _)| flow.clone());
    let about = "Segments that an ACK newly acknowledged, rounded up";
    columns.count("segments", SEGMENTS, about, |(_, _, bin)| {
        u64::from(bin.segments)
    });
    let about = "ACKs that did";
    columns.count("acks", NONE, about, |(_, _, bin)| bin.acks);
    columns.made()
}

/// A row for each node.
pub(super) fn nodes(report: &Report) -> Vec<Column> {
    let of = |run: &'_ Run| -> Vec<(String, NodeRecord)> {
        let nodes = run.nodes.iter();
        nodes.map(|node| (run.id.clone(), node.clone())).collect()
    };
    let rows: Vec<_> = report.runs.iter().flat_map(of).collect();
    let mut columns = Columns::new(&rows);
    columns.text("id", "The run", |(id, _)| id);
    columns.text("node", "The node's name", |(_, node)| &node.name);
    let about = "CPU time of its processes, user and system";
    columns.maybe_number("cpu_process_s", SECOND, about, |(_, node)| {
        node.cpu_process_s
    });
    let about = "CPU time of its network stack outside processes";
    columns.maybe_number("cpu_stack_s", SECOND, about, |(_, node)| node.cpu_stack_s);
    let about = "Energy of its radio";
    columns.maybe_number("energy_j", JOULE, about, |(_, node)| node.energy_j);
    columns.made()
}
