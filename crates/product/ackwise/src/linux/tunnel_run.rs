//! `ackwise tunnel up`, `status`, `down` and `check`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_netdev::daemon::{Daemon, Supervisor};
use ackwise_tunneld::{Amount, Config, Error, PeerStats, Prepared, Restored, Stats, control};
use serde_json::json;

use crate::linux::cli::tunnel::{DownArgs, StatusArgs, UpArgs};
use crate::linux::per_daemon::PerDaemon;
use crate::linux::shared_daemon::{SharedDaemon, listen_if_requested};
use crate::linux::watch::{EXIT_TIMEOUT, reason, watch};

/// Runs one end of a tunnel until something ends it.
pub fn up(args: &UpArgs, format: Format) -> anyhow::Result<()> {
    let config = Config::load(&args.config)?;
    // Block signals before any thread starts, so that every thread leaves them to this one.
    let supervisor = Supervisor::new()?;
    let started = Instant::now();
    let what = describe(&config);
    let device = config.device.clone();
    let listener = listen_if_requested(args.metrics, Some(&args.config), config.metrics)?;
    let mut prepared = Prepared::new(config, args.attach_mode.into())?;
    // Also before any thread, since threads inherit the privileges of this one.
    prepared.drop_privileges()?;
    let shared = SharedDaemon::default();
    let server = listener
        .map(|listener| shared.serve(listener))
        .transpose()?;
    shared.set(prepared.start()?);
    let metrics = server.as_ref().map(|it| it.address().to_string());
    supervisor.ready(&what);
    if format == Format::Json {
        let Ok(stats) = shared.stats();
        let line = json!({ "event": "up", "stats": stats, "metrics": metrics });
        text::print(&format!("{line}\n"))?;
    } else {
        let hint = if text::watched() {
            "; Ctrl-C ends it"
        } else {
            ""
        };
        let at = metrics.map(|at| format!("; metrics on http://{at}/metrics"));
        text::print(&format!("tunnel {what}{}{hint}\n", at.unwrap_or_default()))?;
    }
    let until = args.duration.map(|duration| started + duration);
    let Ok(outcome) = watch(&supervisor, &shared, until, format, live);
    let why = reason(outcome, "ackwise tunnel down");
    supervisor.stopping();
    let tunnel = shared.take()?;
    let last = tunnel.stats();
    let ended = tunnel.stop();
    // Last, so that no client of the metrics delays the steps above.
    drop(server);
    let stats = ended.as_ref().unwrap_or(&last);
    if format == Format::Json {
        let line = json!({ "event": "down", "why": why, "stats": stats });
        text::print(&format!("{line}\n"))?;
    } else {
        let line = format!("tunnel {device} ended ({why})\n");
        text::print(&format!("{line}{}", details(stats)))?;
    }
    ended.map(|_| ()).map_err(Into::into)
}

fn sum(stats: &Stats, of: impl Fn(&PeerStats) -> u64) -> u64 {
    stats.peers.iter().map(of).sum()
}

/// One line on what happened between two reads of the counters, `elapsed` apart.
fn live(before: &Stats, now: &Stats, elapsed: Duration) -> String {
    let span = elapsed.as_secs_f64().max(1e-3);
    let grown = |of: fn(&PeerStats) -> u64| sum(now, of).saturating_sub(sum(before, of));
    let per_s = |of: fn(&PeerStats) -> u64| text::count((grown(of) as f64 / span).round());
    let acks = grown(|peer| peer.packets_in.packets);
    let bytes = grown(|peer| peer.bundles_out.bytes);
    let cost = if acks == 0 {
        String::new()
    } else {
        format!(" ({:.2} B each)", bytes as f64 / acks as f64)
    };
    format!(
        "{} of {} peers answer; {} ACKs/s in{cost}, {} bundles/s, {} ACKs/s out",
        now.peers.iter().filter(|peer| peer.up).count(),
        now.peers.len(),
        per_s(|peer| peer.packets_in.packets),
        per_s(|peer| peer.bundles_out.packets),
        per_s(|peer| peer.packets_out.packets),
    )
}

/// The configuration in a few words.
fn describe(config: &Config) -> String {
    let from = match &config.interface {
        Some(interface) => format!("ACKs that leave by {interface}"),
        None => "ACKs that are routed to it".to_owned(),
    };
    let names: Vec<&str> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
    let bare = if config.private_key.is_none() {
        ", without encryption"
    } else {
        ""
    };
    format!(
        "{}: {from}, to {}, every {}{bare}",
        config.device,
        names.join(", "),
        text::micros(config.period.as_secs_f64() * 1e6),
    )
}

/// Shows tunnels.
pub fn status(args: &StatusArgs, format: Format) -> anyhow::Result<()> {
    let tunnels = match &args.device {
        Some(device) => PerDaemon::only(control::status(device)?),
        None => PerDaemon::of(
            control::list()?,
            |name| name,
            |device| match control::status(device) {
                // It may have ended since the list was made.
                Err(Error::NotThere(_)) => Ok(None),
                stats => Ok(Some(stats?)),
            },
        ),
    };
    match format {
        Format::Json => text::print_json(&json!({ "tunnels": tunnels.done }))?,
        Format::Text if tunnels.is_empty() => text::print(NO_TUNNEL)?,
        Format::Text => text::print(&tunnels.done.iter().map(details).collect::<String>())?,
    }
    tunnels.finish()
}

/// What is printed where no tunnel runs.
const NO_TUNNEL: &str = "There is no tunnel in this network namespace.\n";

/// Ends a tunnel. Without a name and without a tunnel there is nothing to do, as for `ackwise down`.
pub fn down(args: &DownArgs, format: Format) -> anyhow::Result<()> {
    let stats = match &args.device {
        Some(device) => end(device)?,
        None => match &control::list()?[..] {
            [only] => end(only)?,
            [] if format == Format::Json => return text::print_json(&None::<Stats>),
            [] => return text::print(NO_TUNNEL),
            devices => {
                let what = format!("several tunnels are running: {}", devices.join(", "));
                return Err(BadInput::new(what)
                    .hint("name one: `ackwise tunnel down DEVICE`")
                    .into());
            }
        },
    };
    if format == Format::Json {
        return text::print_json(&stats);
    }
    text::print(&details(&stats))
}

/// Ends a tunnel, and waits for its process to end so that the next one can start.
fn end(device: &str) -> anyhow::Result<Stats> {
    let stats = control::down(device)?;
    if !control::wait_ended(stats.pid, EXIT_TIMEOUT)? {
        tracing::warn!("process {} of {device} has not ended yet", stats.pid);
    }
    Ok(stats)
}

/// Checks configurations.
pub fn check(files: &[PathBuf], format: Format) -> anyhow::Result<()> {
    crate::linux::check::files(files, format, |file: &Path| Config::load(file), describe)
}

fn details(stats: &Stats) -> String {
    let from = match &stats.interface {
        Some(interface) => format!("ACKs that leave by {interface}"),
        None => "routed ACKs".to_owned(),
    };
    let mut text = format!(
        "{} ({from}; process {}, {:.1} s up, {:.3} CPU s)\n",
        stats.device, stats.pid, stats.uptime_s, stats.cpu_s,
    );
    if let Some(key) = &stats.public_key {
        text.push_str(&format!("public key {key}\n"));
    }
    let others = [
        ("not read in time, passed", stats.unattended),
        ("not read in time, dropped", stats.overrun),
        ("bypassed the tunnel", stats.bypassed),
        ("  which failed", stats.bypass_failed),
        ("datagrams from unknown sources", stats.unknown_sources),
        ("handshakes over the limit", stats.handshakes_limited),
        ("cookies sent", stats.cookies_sent),
    ];
    text.push_str(&counts(&others));
    if stats.peers.iter().any(|peer| peer.packets_out.packets > 0) {
        text.push_str(&restored(&stats.restored));
    }
    let limit = stats.memory_of_peer;
    text.extend(stats.peers.iter().map(|peer| peer_in_full(peer, limit)));
    text
}

/// How restored packets are injected.
fn restored(how: &Restored) -> String {
    let Some(why) = &how.reason else {
        let mean = how.batched as f64 / how.calls.max(1) as f64;
        let ended = match how.interrupted {
            0 => String::new(),
            calls => format!(", {calls} ended early"),
        };
        return format!(
            "  delivered in batches: {} packets ({} system calls, {mean:.0} each{ended})\n",
            how.batched, how.calls
        );
    };
    format!("  restored packets are written one by one: {why}\n")
}

/// The counters that are not 0.
fn counts(all: &[(&str, u64)]) -> String {
    let rows = all.iter().filter(|(_, count)| *count > 0);
    let rows = rows.map(|(what, count)| vec![format!("  {what}"), count.to_string()]);
    text::columns(&rows.collect::<Vec<_>>(), &[false, true])
}

fn peer_in_full(peer: &PeerStats, memory_limit: u64) -> String {
    let at = peer
        .endpoint
        .map_or_else(|| "an unknown place".to_owned(), |at| at.to_string());
    let state = match (peer.up, peer.rtt_ms) {
        (true, Some(rtt)) => format!("answers, {rtt:.1} ms"),
        (true, None) => "answers".to_owned(),
        (false, _) => "does not answer; ACKs take the ordinary path".to_owned(),
    };
    let age = peer
        .session_age_s
        .map_or_else(String::new, |age| format!("; session {age:.0} s old"));
    let cost = peer.bytes_per_ack.map_or_else(String::new, |bytes| {
        format!(", {bytes:.2} B for each packet")
    });
    let amount = |amount: &Amount| vec![amount.packets.to_string(), text::bytes(amount.bytes)];
    let row = |what: &str, of: &Amount| [vec![format!("  {what}")], amount(of)].concat();
    let rows = [
        row("packets in", &peer.packets_in),
        row("bundles sent", &peer.bundles_out),
        row("datagrams sent", &peer.datagrams_out),
        row("datagrams received", &peer.datagrams_in),
        row("packets restored", &peer.packets_out),
    ];
    let failures = &peer.failures;
    let failures = counts(&[
        ("expedited", peer.expedited),
        ("bypassed the tunnel", peer.bypassed),
        ("not authentic", failures.auth_failures),
        ("replayed", failures.replayed),
        ("of an unknown session", failures.unknown_session),
        ("handshakes without room", failures.handshakes_limited),
        ("not understood", failures.undecodable),
        ("not ACKs, dropped", failures.refused),
        ("not in allowed_ips, dropped", failures.not_allowed),
        ("refused by the kernel", failures.not_delivered),
        ("not sent", failures.not_sent),
        ("sent in fragments", failures.fragmented),
        ("timeouts of the peer", failures.peer_timeouts),
    ]);
    format!(
        "peer {} at {at}: {state}{age}\n{}  period {:.2} ms, datagrams up to {} B{cost}\n  \
         memory of flows {} of {}\n{failures}",
        peer.name,
        text::columns(&rows, &[false, true, true]),
        peer.period_ms,
        peer.datagram_size,
        text::bytes(peer.memory),
        text::bytes(memory_limit),
    )
}
