//! Draws the screen. It fits 80 columns; wider ones show longer names and histories.

use std::cmp::Ordering;

use ackwise_cli::text;
use ackwise_datapath::FlowStats;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Borders, Cell, Clear, Paragraph, Row, Sparkline, SparklineBar, Table, TableState,
};

use super::app::{App, SortBy};
use super::measures::{FlowRates, HISTORY, History, Measures};
use super::snapshot::{Backlog, Counters, Kind, Source};
use crate::linux::rates::rate;

/// The maximum number of sources listed, not counting the header.
const MAX_LISTED: usize = 6;
/// The width of the names and of the values beside the histories.
const LABEL_WIDTH: u16 = 10;
const VALUE_WIDTH: u16 = 12;
/// The number of bar heights in a history: more than the screen can distinguish.
const BAR_LEVELS: f64 = 1000.0;
/// Shown where there is no value.
const NO_VALUE: &str = "-";

/// A history to be drawn.
struct Trace {
    label: &'static str,
    value: fn(&Measures) -> Option<f64>,
    /// The value of a full bar; `None` is the largest value shown.
    whole: Option<f64>,
    text: fn(&Measures) -> String,
}

const TRACES: [Trace; 4] = [
    Trace {
        label: "ACKs/s",
        value: |m| Some(m.acks),
        whole: None,
        text: |m| text::count(m.acks.round()),
    },
    Trace {
        label: "saved",
        value: |m| m.saved,
        whole: Some(1.0),
        text: |m| per_cent(m.saved),
    },
    Trace {
        label: "queue",
        value: |m| m.backlog.map(|backlog| backlog.bytes as f64),
        whole: None,
        text: |m| queue(m.backlog),
    },
    Trace {
        label: "RTT",
        value: |m| m.rtt_us,
        whole: None,
        text: |m| rtt(m.rtt_us),
    },
];

/// Draws the screen.
pub fn draw(frame: &mut Frame, app: &App) {
    let listed = app.snapshot.sources.len().clamp(1, MAX_LISTED) as u16;
    let [title, list, details, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(listed + 1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_title(frame, app, title);
    draw_sources(frame, app, list);
    draw_details(frame, app, details);
    let line =
        Line::from(" q quit  up/down select  left/right sort  r reverse  space freeze  ? help");
    frame.render_widget(Paragraph::new(line).style(inverse()), keys);
    if app.help {
        draw_help(frame);
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn inverse() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn colored(app: &App, color: Color) -> Style {
    if app.color {
        Style::new().fg(color)
    } else {
        Style::new()
    }
}

fn draw_title(frame: &mut Frame, app: &App, area: Rect) {
    let count = |kind| {
        let of_kind = app.snapshot.sources.iter().filter(|s| s.id.kind == kind);
        of_kind.count()
    };
    let what = format!(
        "ackwise top: {}, {}, {}",
        several(count(Kind::Attachment), "attachment"),
        several(count(Kind::Gateway), "gateway"),
        several(count(Kind::Tunnel), "tunnel"),
    );
    frame.render_widget(Paragraph::new(what).style(bold()), area);
    let state = if app.paused() {
        "frozen".to_owned()
    } else if let Some(why) = &app.trouble {
        format!("cannot read: {why}")
    } else {
        format!("for {}", text::uptime(app.snapshot.at.as_secs_f64()))
    };
    frame.render_widget(Paragraph::new(state).alignment(Alignment::Right), area);
}

fn several(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn draw_sources(frame: &mut Frame, app: &App, area: Rect) {
    let sources = &app.snapshot.sources;
    if sources.is_empty() {
        let hint = "Nothing runs. `ackwise up IFACE` or `ackwise attach IFACE` begins.";
        frame.render_widget(Paragraph::new(hint), area);
        return;
    }
    let rows = sources.iter().map(|source| source_row(app, source));
    let widths = [
        Constraint::Length(7),
        Constraint::Length(12),
        Constraint::Min(14),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let head = [
        "KIND", "NAME", "WHAT", "ACKS/S", "SAVED", "BYTES/S", "QUEUE", "RTT",
    ];
    let head = head.iter().enumerate().map(|(n, text)| cell(text, n >= 3));
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(bold()))
        .row_highlight_style(inverse());
    let mut state = TableState::new().with_selected(app.selected());
    frame.render_stateful_widget(table, area, &mut state);
}

fn cell(text: &str, right: bool) -> Cell<'static> {
    let alignment = if right {
        Alignment::Right
    } else {
        Alignment::Left
    };
    Cell::from(Line::from(text.to_owned()).alignment(alignment))
}

fn source_row(app: &App, source: &Source) -> Row<'static> {
    let kind = match source.id.kind {
        Kind::Attachment => "attach",
        Kind::Gateway => "gateway",
        Kind::Tunnel => "tunnel",
    };
    let last = app.histories.of(&source.id).and_then(History::last);
    let mut cells = vec![
        cell(kind, false),
        cell(&source.id.name, false),
        cell(&what(source), false),
    ];
    let values = match last {
        Some(m) => [
            text::count(m.acks.round()),
            per_cent(m.saved),
            text::bytes(m.bytes_saved as u64),
            queue(m.backlog),
            rtt(m.rtt_us),
        ],
        None => [NO_VALUE; 5].map(str::to_owned),
    };
    cells.extend(values.iter().map(|value| cell(value, true)));
    let style = if source.counters.is_err() {
        colored(app, Color::Red)
    } else {
        Style::new()
    };
    Row::new(cells).style(style)
}

/// What a source does, in a word or two.
fn what(source: &Source) -> String {
    match &source.counters {
        Ok(Counters::Attachment(status)) => {
            let policy = status.stats.policy.split(':').next().unwrap_or_default();
            if status.stats.dry_run {
                format!("{policy}, dry run")
            } else if status.stats.paused {
                format!("{policy}, paused")
            } else {
                policy.to_owned()
            }
        }
        Ok(Counters::Gateway(stats)) => {
            let bps = stats.measured.map_or(stats.rate_bps, |m| m.rate_bps);
            rate(bps)
        }
        Ok(Counters::Tunnel(stats)) => {
            let up = stats.peers.iter().filter(|peer| peer.up).count();
            format!("{up} of {}", several(stats.peers.len(), "peer"))
        }
        Err(_) => "no answer".to_owned(),
    }
}

fn per_cent(share: Option<f64>) -> String {
    share.map_or_else(
        || NO_VALUE.to_owned(),
        |share| format!("{:.1} %", share * 100.0),
    )
}

/// The length of the queue: as a time if its rate is known, else in bytes.
fn queue(backlog: Option<Backlog>) -> String {
    match backlog {
        Some(Backlog {
            bytes,
            rate_bps: Some(rate),
            ..
        }) if rate > 0 => text::micros(bytes as f64 * 8e6 / rate as f64),
        Some(backlog) => text::bytes(backlog.bytes),
        None => NO_VALUE.to_owned(),
    }
}

fn rtt(us: Option<f64>) -> String {
    us.map_or_else(|| NO_VALUE.to_owned(), text::micros)
}

fn draw_details(frame: &mut Frame, app: &App, area: Rect) {
    let Some(source) = app.selected_source() else {
        return;
    };
    let block = Block::new()
        .borders(Borders::TOP)
        .title(format!(" {} ", heading(source)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [traces, events, rest] = Layout::vertical([
        Constraint::Length(TRACES.len() as u16 + 1),
        Constraint::Length(2),
        Constraint::Min(0),
    ])
    .areas(inner);
    let history = app.histories.of(&source.id);
    draw_traces(frame, app, history, traces);
    draw_events(frame, history.and_then(History::last), events);
    match &source.counters {
        Ok(Counters::Attachment(status)) => {
            let rates = history
                .and_then(History::last)
                .map_or(&[][..], |m| &m.flows[..]);
            draw_flows(frame, app, &status.flows, rates, rest);
        }
        Ok(Counters::Tunnel(stats)) => draw_peers(frame, stats, rest),
        Ok(Counters::Gateway(stats)) => {
            let queue = format!(
                "{}\n{} packets wait, at most {} did; the longest wait was {}\nCPU {:.1} s",
                stats.discipline,
                stats.waiting.packets,
                stats.waiting.max_packets,
                text::micros(stats.waiting.max_wait_us as f64),
                stats.cpu_s,
            );
            frame.render_widget(Paragraph::new(queue), rest);
        }
        Err(why) => {
            let why = Paragraph::new(why.clone()).style(colored(app, Color::Red));
            frame.render_widget(why, rest);
        }
    }
}

fn heading(source: &Source) -> String {
    let of = |seconds: f64, more: String| {
        let name = &source.id.name;
        let netns = source.id.netns.map(|n| format!(" (netns {n})"));
        format!(
            "{name}{}: {more}, up {}",
            netns.unwrap_or_default(),
            text::uptime(seconds)
        )
    };
    match &source.counters {
        Ok(Counters::Attachment(status)) => {
            let s = &status.stats;
            let more = format!(
                "{}, {}, {}",
                s.policy,
                text::json_name(&s.position),
                text::json_name(&s.attach)
            );
            of(s.uptime_s, more)
        }
        Ok(Counters::Gateway(s)) => of(
            s.uptime_s,
            format!("gateway, {}", text::json_name(&s.attach)),
        ),
        Ok(Counters::Tunnel(s)) => {
            let at = s.interface.as_deref().unwrap_or("its routes");
            of(s.uptime_s, format!("tunnel, takes ACKs of {at}"))
        }
        Err(_) => source.id.name.clone(),
    }
}

fn draw_traces(frame: &mut Frame, app: &App, history: Option<&History>, area: Rect) {
    let [left, bars, right] = Layout::horizontal([
        Constraint::Length(LABEL_WIDTH),
        Constraint::Min(0),
        Constraint::Length(VALUE_WIDTH),
    ])
    .areas(area);
    let minutes = HISTORY.as_secs() / 60;
    let scale = format!("{minutes} min ago{:>1$}", "now", {
        usize::from(bars.width).saturating_sub(9)
    });
    for (n, trace) in TRACES.iter().enumerate() {
        let line = |area: Rect| Rect {
            y: area.y + n as u16,
            height: 1.min(area.height.saturating_sub(n as u16)),
            ..area
        };
        frame.render_widget(Paragraph::new(trace.label), line(left));
        let Some(history) = history else {
            continue;
        };
        let bins = history.bins(usize::from(bars.width), trace.value);
        let most = bins.iter().flatten().fold(1e-9, |a: f64, b| a.max(*b));
        let whole = trace.whole.unwrap_or(most);
        let height = |value: f64| (value / whole * BAR_LEVELS).round() as u64;
        let bins = bins.iter().map(|bin| SparklineBar::from(bin.map(height)));
        let line_of_bars = Sparkline::default()
            .data(bins.collect::<Vec<_>>())
            .max(BAR_LEVELS as u64)
            .style(colored(app, Color::Cyan));
        frame.render_widget(line_of_bars, line(bars));
        let now = history.last().map_or_else(String::new, trace.text);
        let now = Paragraph::new(now).alignment(Alignment::Right);
        frame.render_widget(now, line(right));
    }
    let below = Rect {
        y: bars.y + TRACES.len() as u16,
        height: 1.min(bars.height.saturating_sub(TRACES.len() as u16)),
        ..bars
    };
    let scale = Paragraph::new(scale).style(Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(scale, below);
}

fn draw_events(frame: &mut Frame, last: Option<&Measures>, area: Rect) {
    let events = last.map_or(&[][..], |measures| &measures.events[..]);
    let mut line = Vec::new();
    for (name, per_second) in events {
        line.push(Span::styled(format!("{name} "), bold()));
        line.push(Span::raw(format!("{}/s  ", text::count(*per_second))));
    }
    frame.render_widget(Paragraph::new(Line::from(line)), area);
}

fn draw_flows(frame: &mut Frame, app: &App, flows: &[FlowStats], rates: &[FlowRates], area: Rect) {
    let mut listed: Vec<_> = flows
        .iter()
        .enumerate()
        .map(|(n, flow)| (flow, rates.get(n).copied().unwrap_or_default()))
        .collect();
    listed.sort_by(|a, b| {
        let order = compare(app.sort, a, b);
        if app.ascending {
            order
        } else {
            order.reverse()
        }
    });
    let arrow = if app.ascending { "↑" } else { "↓" };
    let column = |text: &str, by: Option<SortBy>| {
        let mark = if by == Some(app.sort) { arrow } else { "" };
        cell(&format!("{text}{mark}"), by.is_some())
    };
    let head = Row::new([
        column("ACK SENDER", None),
        column("DATA SENDER", None),
        column("ACKS/S", Some(SortBy::Acks)),
        column("SAVED", Some(SortBy::Saved)),
        column("DATA/S", Some(SortBy::Data)),
        column("RTT", Some(SortBy::Rtt)),
        column("IDLE", Some(SortBy::Idle)),
    ])
    .style(bold());
    let rows = listed.iter().map(|(flow, rates)| {
        let rtt_us = (flow.srtt_us > 0).then(|| f64::from(flow.srtt_us));
        let values = [
            text::count(rates.acks.round()),
            per_cent(rates.saved),
            text::bytes(rates.data as u64),
            rtt(rtt_us),
            text::uptime(flow.idle_ms as f64 / 1e3),
        ];
        let ends = [&flow.ack_sender, &flow.data_sender].map(|end| cell(end, false));
        Row::new(ends.into_iter().chain(values.iter().map(|v| cell(v, true))))
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(6),
    ];
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

/// Orders two flows by a column, then by their addresses.
fn compare(by: SortBy, a: &(&FlowStats, FlowRates), b: &(&FlowStats, FlowRates)) -> Ordering {
    let order = match by {
        SortBy::Acks => a.1.acks.total_cmp(&b.1.acks),
        SortBy::Saved => {
            let saved = |rates: FlowRates| rates.saved.unwrap_or(-1.0);
            saved(a.1).total_cmp(&saved(b.1))
        }
        SortBy::Data => a.1.data.total_cmp(&b.1.data),
        SortBy::Rtt => a.0.srtt_us.cmp(&b.0.srtt_us),
        SortBy::Idle => a.0.idle_ms.cmp(&b.0.idle_ms),
    };
    let ends = |flow: &FlowStats| (flow.ack_sender.clone(), flow.data_sender.clone());
    order.then_with(|| ends(a.0).cmp(&ends(b.0)))
}

fn draw_peers(frame: &mut Frame, stats: &ackwise_tunneld::Stats, area: Rect) {
    let head = ["PEER", "ENDPOINT", "STATE", "RTT", "BYTES/ACK", "BYPASSED"];
    let head = head.iter().enumerate().map(|(n, text)| cell(text, n >= 3));
    let rows = stats.peers.iter().map(|peer| {
        let endpoint = peer.endpoint.map(|endpoint| endpoint.to_string());
        let per_ack = peer.bytes_per_ack.map(|bytes| format!("{bytes:.1}"));
        let or_none = |text: Option<String>| text.unwrap_or_else(|| NO_VALUE.to_owned());
        Row::new([
            cell(&peer.name, false),
            cell(&or_none(endpoint), false),
            cell(if peer.up { "up" } else { "down" }, false),
            cell(&rtt(peer.rtt_ms.map(|ms| ms * 1e3)), true),
            cell(&or_none(per_ack), true),
            cell(&peer.bypassed.to_string(), true),
        ])
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Fill(2),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(8),
    ];
    let table = Table::new(rows, widths).header(Row::new(head).style(bold()));
    frame.render_widget(table, area);
}

const HELP: &str = "\
ACKS/S   ACKs seen per second
SAVED    the share of them that did not leave as packets
BYTES/S  bytes saved per second
QUEUE    what waits: in a gateway as time at its rate, on an
         interface as bytes in the kernel's queue
RTT      of an attachment the median of the flows in use,
         of a tunnel that of its first peer

up, down     select another attachment, gateway or tunnel
left, right  sort the flows by another column
r            reverse the order
space        freeze the display
q            quit";

fn draw_help(frame: &mut Frame) {
    let area = frame.area();
    let width = 64.min(area.width);
    let height = (HELP.lines().count() as u16 + 2).min(area.height);
    let middle = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, middle);
    let block = Block::bordered().title(" ? or Esc closes ");
    frame.render_widget(Paragraph::new(HELP).block(block), middle);
}
