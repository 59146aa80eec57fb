//! `ackwise attach`: in the foreground until it is told to stop.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_datapath::{
    Datapath, Ended, Error, FlowStats, Options, Prepared, Stats, check_silent_drop,
};
use ackwise_netdev::daemon::{Daemon, Supervisor};
use anyhow::Context;
use serde_json::json;

use crate::ab::guard::Guarded;
use crate::ab::subject::Subject;
use crate::cli::AttachArgs;
use crate::http::{Page, Server};
use crate::metrics;
use crate::options::options;
use crate::status::{name, totals};
use crate::summary;
use crate::watch::reason;

/// The attachment, shared with whoever scrapes; nothing before it is made and after it ended.
type Shared = Arc<Mutex<Option<Datapath>>>;

/// Attaches, waits, detaches.
pub fn attach(args: &AttachArgs, format: Format) -> anyhow::Result<()> {
    let options = options(args)?;
    // Before any thread is started, so that all of them leave signals to this one.
    let supervisor = Supervisor::new()?;
    let shared = Shared::default();
    // Before attaching: a port that is taken must not cost a single ACK.
    let listener = args.metrics.map(listen).transpose()?;
    let started = Instant::now();
    if !options.dry_run {
        check_silent_drop(options.attach)?;
    }
    let prepared = Prepared::new(options.clone())?;
    // Before any thread, too: they inherit what this one may do.
    let prepared = prepared.drop_privileges(args.thin.user.as_deref())?;
    let server = listener.map(|listener| serve(listener, shared.clone()));
    let server = server.transpose()?;
    let attachment = prepared.start()?;
    let stats = attachment.stats()?;
    *lock(&shared) = Some(attachment);

    supervisor.ready(&format!("{} on {}", options.policy, options.ifname));
    announce(&options, &stats, server.as_ref(), format)?;
    let until = args.duration.map(|d| started + d);
    let guarded = Guarded {
        supervisor: &supervisor,
        subject: &Watched(&shared),
        interface: &options.ifname,
        policy: options.policy.to_string(),
        position: options.position,
    };
    let outcome = guarded.watch(&args.guard, until, format, summary::line)?;
    let why = reason(outcome, "ackwise detach");
    supervisor.stopping();
    let attachment = lock(&shared).take().context("the attachment is gone")?;
    let last = attachment.stats().unwrap_or_default();
    // No client of the metrics may delay this.
    let ended = attachment.detach();
    drop(server);
    let stats = ended.as_ref().unwrap_or(&last);
    conclude(&options, stats, why, format)?;
    ended.map(|_| ()).map_err(Into::into)
}

fn lock(shared: &Shared) -> MutexGuard<'_, Option<Datapath>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(address: SocketAddr) -> Result<TcpListener, BadInput> {
    TcpListener::bind(address).map_err(|e| {
        BadInput::new(format!("--metrics {address}: cannot listen there: {e}"))
            .mend("choose another address or port; port 0 takes any free one")
    })
}

fn serve(listener: TcpListener, shared: Shared) -> anyhow::Result<Server> {
    let page: Arc<Page> = Arc::new(move || match lock(&shared).as_ref() {
        Some(attachment) => metrics::page(attachment.stats().map_err(|e| e.to_string())?),
        None => Err("not attached".to_owned()),
    });
    Server::start(listener, page).context("starting the thread that serves metrics")
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
                "position": name(&options.position),
                "attach": name(&stats.attach),
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
        name(&options.position),
        name(&stats.attach),
        options.policy,
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

fn conclude(
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

/// The datapath as the supervisor sees it: nothing counts before it is attached and after it has
/// detached.
struct Watched<'a>(&'a Shared);

impl Daemon for Watched<'_> {
    type Stats = Stats;
    type Error = Error;

    fn stats(&self) -> Result<Stats, Error> {
        let datapath = lock(self.0);
        datapath
            .as_ref()
            .map_or_else(|| Ok(Stats::default()), Datapath::stats)
    }

    fn ended(&self) -> Option<Ended> {
        lock(self.0).as_ref().and_then(Datapath::ended)
    }
}

impl Subject for Watched<'_> {
    fn pause(&self, paused: bool) -> Result<(), Error> {
        lock(self.0).as_ref().map_or(Ok(()), |it| it.pause(paused))
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        let datapath = lock(self.0);
        datapath
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |it| it.flows(limit))
    }
}
