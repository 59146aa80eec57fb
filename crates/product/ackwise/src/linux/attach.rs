//! `ackwise attach`: runs in the foreground until it is told to stop.

use std::time::Instant;

use ackwise_cli::{Format, text};
use ackwise_datapath::{Options, Prepared, Stats};
use ackwise_netdev::daemon::{Daemon, Supervisor};
use serde_json::json;

use crate::linux::ab::guard::Guarded;
use crate::linux::cli::AttachArgs;
use crate::linux::gateway::beside_attach;
use crate::linux::http::Server;
use crate::linux::options::options;
use crate::linux::shared_daemon::listen;
use crate::linux::shared_datapath::SharedDatapath;
use crate::linux::status::totals;
use crate::linux::summary;
use crate::linux::watch::reason;

/// Attaches, waits, detaches.
pub fn attach(args: &AttachArgs, format: Format) -> anyhow::Result<()> {
    let options = options(args)?;
    // Block signals before any thread starts, so that every thread leaves them to this one.
    let supervisor = Supervisor::new()?;
    let shared = SharedDatapath::default();
    let listener = args.metrics.map(listen).transpose()?;
    let started = Instant::now();
    let prepared = match options.dry_run {
        true => Prepared::new(options.clone()),
        false => Prepared::checked(options.clone()),
    }?;
    // The registry cannot be read any more once this process is another user's.
    let is_beside_gateway =
        !options.dry_run && ackwise_gateway::control::is_running(&options.ifname)?;
    // Also before any thread, since threads inherit the privileges of this one.
    let prepared = prepared.drop_privileges(args.thin.user.as_deref())?;
    let server = listener.map(|listener| shared.serve(listener));
    let server = server.transpose()?;
    shared.set(prepared.start()?);
    let stats = shared.stats()?;

    if is_beside_gateway {
        tracing::warn!("{}", beside_attach(&options.ifname));
    }
    supervisor.ready(&format!("{} on {}", options.policy.brief(), options.ifname));
    announce(&options, &stats, server.as_ref(), format)?;
    let until = args.duration.map(|d| started + d);
    let guarded = Guarded {
        supervisor: &supervisor,
        subject: &shared,
        interface: &options.ifname,
        policy: options.policy.to_string(),
        position: options.position,
    };
    let outcome = guarded.watch(&args.guard, until, format, summary::line)?;
    let why = reason(outcome, "ackwise detach");
    supervisor.stopping();
    let attachment = shared.take()?;
    let last = attachment.stats().unwrap_or_default();
    // Detach first, so that no client of the metrics delays it.
    let ended = attachment.detach();
    drop(server);
    let stats = ended.as_ref().unwrap_or(&last);
    finish(&options, stats, why, format)?;
    ended.map(|_| ()).map_err(Into::into)
}

fn announce(
    options: &Options,
    stats: &Stats,
    server: Option<&Server>,
    format: Format,
) -> anyhow::Result<()> {
    let metrics = server.map(|s| s.address().to_string());
    if format == Format::Json {
        return text::print(&format!(
            "{}\n",
            json!({
                "event": "attached",
                "interface": options.ifname,
                "policy": options.policy.to_string(),
                "position": text::json_name(&options.position),
                "attach": text::json_name(&stats.attach),
                "attach_fallback": stats.attach_fallback,
                "hold_max_us": options.hold_max.as_micros() as u64,
                "dry_run": options.dry_run,
                "metrics": metrics,
            })
        ));
    }
    let mut line = format!(
        "attached to {} ({}, {}): {}{}",
        options.ifname,
        text::json_name(&options.position),
        text::json_name(&stats.attach),
        options.policy.brief(),
        if options.dry_run {
            "; dry run: nothing is withheld"
        } else {
            ""
        },
    );
    if let Some(address) = metrics {
        line.push_str(&format!("; metrics on http://{address}/metrics"));
    }
    if text::watched() {
        line.push_str("; Ctrl-C detaches");
    }
    text::print(&format!("{line}\n"))
}

fn finish(
    options: &Options,
    stats: &Stats,
    why: &'static str,
    format: Format,
) -> anyhow::Result<()> {
    if format == Format::Json {
        return text::print(&format!(
            "{}\n",
            json!({
                "event": "detached",
                "interface": options.ifname,
                "why": why,
                "stats": stats,
            })
        ));
    }
    text::print(&format!(
        "detached from {} ({})\n{}",
        options.ifname,
        why,
        totals(stats)
    ))
}
