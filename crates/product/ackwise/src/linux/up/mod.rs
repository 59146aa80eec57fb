//! `ackwise up`: examines an interface, decides what helps there, and does it until it is told to
//! end.
//!
//! A separate process (`ackwise-guard`), which outlives this one, restores a root queue that was
//! replaced. If both processes are killed, the record in the registry says what was there: `ackwise
//! down` and the next `ackwise up` restore it.

mod all;
pub mod check;
mod decision;
pub mod down;
mod facts;
mod queue_watch;
pub mod reload;
mod reloaded;
mod settings;
mod text;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use ackwise_autorate::{Autorate, Bounds, Delay, Halted};
use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, GlobalArgs, text as out};
use ackwise_datapath::{Datapath, Options, Position, Prepared};
use ackwise_netdev::control::{Listener, Server};
use ackwise_netdev::daemon::{Ended, Outcome, Supervisor, Worker};
use ackwise_netdev::janitor::RateSetter;
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::{self, Cake, Replaced};
use ackwise_netdev::registry::{Entry, Key, Registry, TakeError};
use ackwise_netdev::{Error as Netdev, Interface, ifreq};
use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use decision::GATEWAY_MAX_BPS;

use crate::linux::ab::guard::Guarded;
use crate::linux::ab::subject::Subject;
use crate::linux::cli::up::UpArgs;
use crate::linux::http;
use crate::linux::shared_daemon::SharedDaemon;
use crate::linux::shared_datapath::SharedDatapath;
use crate::linux::summary;
use crate::linux::watch::{reason, watch};
use decision::{Plan, Queue, Refusal, Role, decide};
use facts::Facts;
use reload::Reloader;
use settings::Settings;

/// The registry's record of an `ackwise up`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    pid: u32,
    interface: String,
    index: u32,
    /// The inode of the network namespace.
    netns: u64,
    /// Whether it runs the queue of a gateway.
    gateway: bool,
    /// The root queue to restore.
    replaced: Option<Replaced>,
}

fn registry() -> Registry<Record> {
    // The record of a killed process is kept if there is a queue to restore.
    Registry::new("up", |record| record.replaced.is_some())
}

/// Runs `ackwise up`, or explains what it would do, on one interface or on all.
pub fn up(args: &UpArgs, global: &GlobalArgs) -> anyhow::Result<()> {
    match &args.interface {
        Some(name) => up_one(args, name, global.format),
        None if args.all => all::up(args, global),
        None => Err(BadInput::new("no interface is named")
            .hint(
                "`ackwise up eth0` sets up one, `ackwise up --all` those of the configuration file",
            )
            .into()),
    }
}

/// Whether SIGHUP is a request to read the file again. At a terminal it means that the terminal is
/// gone, and ends the process.
fn is_hangup_a_request() -> bool {
    !std::io::stdin().is_terminal() && !std::io::stdout().is_terminal() && !out::watched()
}

fn up_one(args: &UpArgs, name: &str, format: Format) -> anyhow::Result<()> {
    let settings = Settings::of(args, name)?;
    if args.explain {
        return explain(name, &settings, format);
    }
    let index = ifreq::index_of(name).ok_or_else(|| Netdev::NoInterface(name.to_owned()))?;
    // Block signals before any thread starts, so that every thread leaves them to this one.
    let supervisor = Supervisor::new()?;
    let claim = claim(name, index)?;
    let facts = Facts::gather(name)?;
    let plan = plan(&facts, &settings)?;
    // Also for whoever reads only the warnings of the journal.
    if let Some(why) = &plan.rate_unused {
        tracing::warn!("{name}: {why}");
    }
    let run = Run {
        args,
        settings,
        format,
        facts,
        plan,
        supervisor,
        started: Instant::now(),
    };
    match run.plan.queue {
        Queue::Gateway { rate_bps, overhead } => run.gateway(claim, rate_bps, overhead),
        Queue::Cake(cake) => run.datapath(claim, Some(&cake)),
        Queue::Keep => run.datapath(claim, None),
    }
}

/// What is to be done, or why it cannot be done.
fn plan(facts: &Facts, settings: &Settings) -> anyhow::Result<Plan> {
    let mut plan = decide(facts, &settings.uplink).map_err(refused)?;
    if let Some(file) = &settings.file {
        let file = file.display();
        plan.notes.push(format!("the settings are those of {file}"));
    }
    if !matches!(plan.queue, Queue::Gateway { .. }) {
        return Ok(plan);
    }
    if let Some(option) = settings.wants {
        let what = format!("{option} is for a policy, but the gateway's queue has none");
        let hint =
            format!("leave {option} out; `ackwise gateway status --format json` has its counters");
        return Err(BadInput::new(what).hint(hint).into());
    }
    let is_default = settings.policy.to_string() == settings::default_policy().to_string()
        && settings.max_flows.is_none();
    if settings.file.is_some() && !is_default {
        let note = "policy, guard and max_flows of the file are not used: the gateway's queue has \
                    no policy";
        plan.notes.push(note.to_owned());
    }
    Ok(plan)
}

fn explain(interface: &str, settings: &Settings, format: Format) -> anyhow::Result<()> {
    let facts = Facts::predict(interface)?;
    let plan = plan(&facts, settings).and_then(|plan| settings.check().map(|()| plan));
    let policy = &settings.policy;
    if format == Format::Json {
        let decision = match &plan {
            Ok(plan) => json!({ "plan": plan, "policy": policy.to_string() }),
            Err(error) => json!({ "refused": error.to_string() }),
        };
        // One line per interface, so that the output of `--all` is JSON Lines.
        let explained = json!({ "facts": facts, "decision": decision });
        out::print(&format!("{explained}\n"))?;
        return plan.map(|_| ());
    }
    let refused = plan.as_ref().map_err(ToString::to_string);
    let decision = refused.as_deref().map_err(String::as_str);
    out::print(&text::explain(&facts, decision, &policy.brief()))?;
    plan.map(|_| ())
}

fn refused(refusal: Refusal) -> anyhow::Error {
    let what = BadInput::new(&refusal.what).hint(&refusal.hint);
    if refusal.bad_input {
        return what.into();
    }
    anyhow!("{what}")
}

/// Claims the interface in the registry, and restores what a killed `ackwise up` left there.
fn claim(name: &str, index: u32) -> anyhow::Result<Entry<Record>> {
    let key = Key::here(&index.to_string())?;
    let entry = registry().take(&key).map_err(|error| match error {
        TakeError::Held(record) => {
            let process = match record {
                Some(record) => format!("process {}", record.pid),
                None => "a process that is starting".to_owned(),
            };
            anyhow!(
                "`ackwise up {name}` is already running, {process}\n  `ackwise down {name}` stops it"
            )
        }
        TakeError::Registry(error) => error.into(),
    })?;
    down::restore_leftovers(entry)
}

/// Runs `act` in a thread of its own. If no thread can be started, this is logged and `act` does
/// not run.
fn spawn_thread(act: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().spawn(act) {
        tracing::error!("cannot start a thread: {error}");
    }
}

/// Ends the reloader when dropped, since the supervisor keeps a reference to it.
struct EndOnDrop(Arc<Reloader>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Everything that is determined before anything is changed.
struct Run<'a> {
    args: &'a UpArgs,
    settings: Settings,
    format: Format,
    facts: Facts,
    plan: Plan,
    supervisor: Supervisor,
    started: Instant,
}

impl Run<'_> {
    fn record(&self, replaced: Option<Replaced>) -> anyhow::Result<Record> {
        let key = Key::here(&self.facts.index.to_string())?;
        Ok(Record {
            pid: std::process::id(),
            interface: self.facts.interface.clone(),
            index: self.facts.index,
            netns: key.netns,
            gateway: matches!(self.plan.queue, Queue::Gateway { .. }),
            replaced,
        })
    }

    fn options(&self) -> Options {
        let mut options = Options::new(&self.facts.interface, self.settings.policy);
        options.position = match self.plan.role {
            Role::Receiver => Position::Receiver,
            Role::Router | Role::Inside => Position::Router,
        };
        options.attach = self.args.attach_mode.into();
        if let Some(flows) = self.settings.max_flows {
            options.max_flows = flows;
        }
        // A shaping cake is where packets wait, and it separates flows. A cake at a measured rate
        // does not shape until that rate is known.
        let root = self.facts.queue.root.as_ref();
        let shapes = matches!(self.plan.queue, Queue::Cake(_)) && self.plan.min_bps.is_none();
        options.fair_queue =
            shapes || root.is_some_and(|root| root.kind == "cake" && root.rate_bps.is_some());
        // In our own cake ACKs go first beside an upload, with up to half of the rate. Otherwise each
        // flow of ACKs would get as much as the upload.
        if matches!(self.plan.queue, Queue::Cake(_)) {
            options.ack_priority = qdisc::VIDEO_TIN;
        }
        options
    }

    /// Attaches the datapath, with a cake behind it if asked for.
    fn datapath(&self, mut claim: Entry<Record>, cake: Option<&Cake>) -> anyhow::Result<()> {
        let options = self.options();
        let listener = self.settings.metrics.as_ref();
        let listener = listener.map(settings::Metrics::listen).transpose()?;
        let position = options.position;
        let mut prepared = Prepared::checked(options)?;
        prepared.make_renewable(self.settings.user.as_deref())?;
        let index = self.facts.index;
        let replaced = cake.map(|_| Replaced {
            index,
            found: self.facts.queue.found.clone(),
        });
        // First the record, then the guard, then the change: wherever this process ends, nothing
        // stays changed.
        claim.publish(&self.record(replaced.clone())?)?;
        claim.guard(replaced.as_ref())?;
        if let Some(cake) = cake {
            self.check_queue_unchanged()?;
            let done = Netlink::open().and_then(|mut it| it.replace_root_by_cake(index, cake));
            done.context("the kernel refuses cake as the root queue")?;
        }
        let autorate = match cake {
            Some(cake) => self.autorate(&claim, cake)?,
            None => None,
        };
        let control = claim.listen()?;
        let setter = claim.rate_setter().context("setting the rate")?;
        let setter = setter.filter(|_| cake.is_some() && autorate.is_none());
        let mut prepared = prepared.drop_privileges(self.settings.user.as_deref())?;
        if let Some(autorate) = &autorate {
            prepared.show_rate(autorate.handle());
        }
        let shared = SharedDatapath::default();
        let server = listener.map(|listener| shared.serve(listener));
        let server = server.transpose()?;
        shared.set(prepared.start()?);
        let reloader = self.reloader(Some(shared.clone()), setter);
        // Also on errors below: the guard waits until all that set the rate have ended.
        let _end = EndOnDrop(Arc::clone(&reloader));
        let control = self.serve_reloads(&reloader, control)?;
        self.report_ready(server.as_ref())?;
        // These run until they are dropped, which is before the guard restores the queue.
        let is_fixed = cake.is_some() && autorate.is_none();
        let autorate = autorate.map(|it| self.measure(it, &shared)).transpose()?;
        let here = (self.facts.interface.as_str(), index);
        let queue = is_fixed.then(|| {
            let reloader = Arc::clone(&reloader);
            queue_watch::start(here, self.format, &shared, move || reloader.rate_bps())
        });
        let queue = queue.transpose()?;
        let outcome = loop {
            let (policy, guard) = reloader.guarded();
            let guarded = Guarded {
                supervisor: &self.supervisor,
                subject: &shared,
                interface: &self.facts.interface,
                policy,
                position,
            };
            match guarded.watch(&guard, self.until(), self.format, summary::line)? {
                // The policy or the guard is another: earlier findings do not count.
                Outcome::Ended(Ended::Renewed) => shared.pause(false)?,
                outcome => break outcome,
            }
        };
        let why = reason(outcome, "ackwise down");
        self.supervisor.stopping();
        // A reload in progress does not delay the end.
        shared.end_renewals();
        drop(control);
        reloader.end();
        drop((autorate, queue));
        self.end_datapath(shared.take()?, claim, why)?;
        // Last, so that no client of the metrics delays the steps above.
        drop(server);
        Ok(())
    }

    /// Checks again that the queue may be replaced: somebody may have set one while the programs
    /// were loaded.
    fn check_queue_unchanged(&self) -> anyhow::Result<()> {
        let before = &self.facts.queue;
        let now = Facts::gather(&self.facts.interface)?.queue;
        if now.is_unchanged_since(before) {
            return Ok(());
        }
        bail!(
            "the queue of {} changed from {before} to {now} meanwhile, and is not replaced\n  start \
             `ackwise up` again",
            self.facts.interface
        )
    }

    /// Prepares the measurement of the rate, if it is to be measured.
    fn autorate(&self, claim: &Entry<Record>, cake: &Cake) -> anyhow::Result<Option<Autorate>> {
        let Some(min_bps) = self.plan.min_bps else {
            return Ok(None);
        };
        let interface = Interface::find(&self.facts.interface)?;
        let delay = Delay::behind_qdisc(&interface, cake.overhead)?;
        let setter = claim.rate_setter().context("setting the rate")?;
        let setter =
            setter.context("the process that sets the rate (ackwise-guard) is not running")?;
        let bounds = Bounds {
            min_bps,
            max_bps: cake.rate_bps,
        };
        Ok(Some(Autorate::new(delay, setter, self.facts.index, bounds)))
    }

    /// Starts to measure the rate.
    fn measure(&self, autorate: Autorate, datapath: &SharedDatapath) -> anyhow::Result<Worker> {
        let (interface, format) = (self.facts.interface.clone(), self.format);
        let datapath = datapath.clone();
        let worker = autorate.start(move |why| {
            if why == Halted::Replaced {
                datapath.note_queue_replaced();
            }
            tracing::warn!("{interface}: the rate is no longer measured: {why}");
            if format == Format::Json {
                let event = json!({ "event": "rate-halted", "interface": interface, "why": why });
                // A failed print means that nobody reads the output; the warning is logged.
                let _ = out::print(&format!("{event}\n"));
            }
        });
        worker.context("starting the thread that measures the rate")
    }

    fn reloader(
        &self,
        datapath: Option<SharedDatapath>,
        rate: Option<RateSetter>,
    ) -> Arc<Reloader> {
        let interface = (self.facts.interface.as_str(), self.facts.index);
        let (args, settings) = (self.args, &self.settings);
        Reloader::new(args, interface, self.format, settings, datapath, rate)
    }

    /// Serves requests to read the file again.
    fn serve_reloads(
        &self,
        reloader: &Arc<Reloader>,
        listener: Listener,
    ) -> anyhow::Result<Server> {
        if is_hangup_a_request() {
            let reloader = Arc::clone(reloader);
            self.supervisor.on_hangup(move || {
                let reloader = Arc::clone(&reloader);
                // In a thread of its own, so that this one keeps answering the service manager.
                spawn_thread(move || drop(reloader.reload()));
            });
        }
        let reloader = Arc::clone(reloader);
        reloaded::serve(&reloaded::UP_SERVICE, listener, move || reloader.reload())
    }

    fn end_datapath(
        &self,
        attachment: Datapath,
        claim: Entry<Record>,
        why: &'static str,
    ) -> anyhow::Result<()> {
        let last = attachment.stats().unwrap_or_default();
        let ended = attachment.detach();
        let restored = claim.end();
        let stats = ended.as_ref().unwrap_or(&last);
        self.ended(why, &crate::linux::status::totals(stats), stats)?;
        ended?;
        self.check_restored(restored)
    }

    /// Runs the gateway with its default queue.
    fn gateway(
        &self,
        mut claim: Entry<Record>,
        rate_bps: u64,
        overhead: u32,
    ) -> anyhow::Result<()> {
        let interface = serde_json::Value::from(self.facts.interface.as_str());
        let mut config = format!(
            "interface = {interface}\nrate = \"{rate_bps} bit/s\"\noverhead = {overhead}\n"
        );
        if let Some(min_bps) = self.plan.min_bps {
            config.push_str(&format!("min_rate = \"{min_bps} bit/s\"\n"));
        }
        let config = ackwise_gateway::Config::parse("(ackwise up)", &config)?;
        let listener = self.settings.metrics.as_ref();
        let listener = listener.map(settings::Metrics::listen).transpose()?;
        let mut prepared = ackwise_gateway::Prepared::new(config, self.args.attach_mode.into())?;
        claim.publish(&self.record(None)?)?;
        claim.guard(None)?;
        let control = claim.listen()?;
        prepared.drop_privileges(self.settings.user.as_deref())?;
        let shared = SharedDaemon::default();
        let server = listener.map(|listener| shared.serve(listener));
        let server = server.transpose()?;
        shared.set(prepared.start()?);
        let control = self.serve_reloads(&self.reloader(None, None), control)?;
        self.report_ready(server.as_ref())?;
        let outcome = watch(
            &self.supervisor,
            &shared,
            self.until(),
            self.format,
            crate::linux::gateway::live,
        )?;
        let why = reason(outcome, "ackwise down");
        self.supervisor.stopping();
        drop(control);
        let gateway = shared.take()?;
        let last = gateway.stats().unwrap_or_default();
        let ended = gateway.stop();
        let restored = claim.end();
        drop(server);
        let stats = ended.as_ref().unwrap_or(&last);
        self.ended(why, &crate::linux::gateway::details(stats), stats)?;
        ended?;
        self.check_restored(restored)
    }

    fn until(&self) -> Option<Instant> {
        self.args.duration.map(|duration| self.started + duration)
    }

    fn report_ready(&self, server: Option<&http::Server>) -> anyhow::Result<()> {
        let policy = &self.settings.policy;
        let mut lines = text::summary_lines(&self.facts, &self.plan, &policy.brief());
        self.supervisor.ready(lines.lines().next().unwrap_or(""));
        let metrics = server.map(|it| it.address().to_string());
        if self.format == Format::Json {
            let event = json!({
                "event": "up",
                "facts": self.facts,
                "plan": self.plan,
                "policy": policy.to_string(),
                "metrics": metrics,
            });
            return out::print(&format!("{event}\n"));
        }
        if let Some(address) = metrics {
            lines.push_str(&format!("metrics: http://{address}/metrics\n"));
        }
        out::print(&lines)
    }

    fn ended(&self, why: &'static str, totals: &str, stats: &impl Serialize) -> anyhow::Result<()> {
        let interface = &self.facts.interface;
        if self.format == Format::Json {
            let event =
                json!({ "event": "down", "interface": interface, "why": why, "stats": stats });
            return out::print(&format!("{event}\n"));
        }
        out::print(&format!(
            "ackwise up {interface} has ended ({why})\n{totals}"
        ))
    }

    fn check_restored(&self, restored: bool) -> anyhow::Result<()> {
        if restored {
            return Ok(());
        }
        let interface = &self.facts.interface;
        Err(anyhow!(
            "the process that puts the queue of {interface} back (ackwise-guard) was killed or \
             failed\n  `ackwise down {interface}` puts it back"
        ))
    }
}
