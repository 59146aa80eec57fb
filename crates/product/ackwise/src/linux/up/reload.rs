//! `ackwise reload` and SIGHUP: read the configuration file again while everything runs.
//!
//! A process changes on its interface what can be changed in place: the parameters of the policy,
//! the guard, and the fixed rate of cake. Its attachments, the state of its flows and held ACKs
//! stay. It reports what else the file asks for. `ackwise up --all`, which has kept its privileges,
//! restarts the process of such an interface.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackwise_cli::error::{BadInput, in_line};
use ackwise_cli::{Format, text as out};
use ackwise_netdev::ifreq;
use ackwise_netdev::janitor::RateSetter;
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::registry::netns_inode;
use anyhow::{Context, bail};
use serde_json::json;

use super::reloaded::{
    Answer, Reloaded, UP_ALL_SERVICE, UP_SERVICE, all_processes, ask, report, socket_path,
};
use super::settings::Settings;
use super::{Record, registry};
use crate::linux::cli::ab::GuardArgs;
use crate::linux::cli::up::{ReloadArgs, UpArgs};
use crate::linux::shared_datapath::SharedDatapath;

/// How long the kernel may take to set a rate.
const RATE_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Reads the file again for one interface.
pub struct Reloader {
    args: UpArgs,
    interface: String,
    index: u32,
    format: Format,
    now: Mutex<Settings>,
    /// `None` if the queue is a gateway's.
    datapath: Option<SharedDatapath>,
    /// Sets the fixed rate of a cake; `None` otherwise. The process that restores the queue waits
    /// until this is dropped.
    rate: Mutex<Option<RateSetter>>,
}

impl Reloader {
    pub fn new(
        args: &UpArgs,
        (interface, index): (&str, u32),
        format: Format,
        settings: &Settings,
        datapath: Option<SharedDatapath>,
        rate: Option<RateSetter>,
    ) -> Arc<Self> {
        Arc::new(Self {
            args: args.clone(),
            interface: interface.to_owned(),
            index,
            format,
            now: Mutex::new(settings.clone()),
            datapath,
            rate: Mutex::new(rate),
        })
    }

    /// Waits for a reload in progress, and changes nothing from then on.
    pub fn end(&self) {
        let _now = self.lock();
        drop(self.setter().take());
    }

    fn setter(&self) -> MutexGuard<'_, Option<RateSetter>> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current policy and its guard.
    pub fn guarded(&self) -> (String, GuardArgs) {
        let now = self.lock();
        (now.policy.to_string(), now.guard.clone())
    }

    /// The current rate of cake, if there is one. Waits for a reload in progress.
    pub fn rate_bps(&self) -> Option<u64> {
        self.lock().uplink.rate.map(|rate| rate.bps)
    }

    /// Reads the file, changes what can be changed in place, and reports it.
    pub fn reload(&self) -> anyhow::Result<Vec<Reloaded>> {
        let done = self.try_reload().map(|done| vec![done]);
        report(&done, self.format);
        done
    }

    fn try_reload(&self) -> anyhow::Result<Reloaded> {
        // One reload at a time.
        let mut now = self.lock();
        let wanted = Settings::again(&self.args, &self.interface)?;
        let mut done = Reloaded::of(&self.interface);
        self.renew(&mut now, &wanted, &mut done)?;
        if let Err(error) = self.set_rate(&mut now, &wanted, &mut done) {
            done.failed = Some(in_line(&error));
        }
        let keys = [
            ("up", now.uplink.rate != wanted.uplink.rate),
            ("overhead", now.uplink.overhead != wanted.uplink.overhead),
            ("router", now.uplink.router != wanted.uplink.router),
            ("queue", now.uplink.queue != wanted.uplink.queue),
            ("max_flows", now.max_flows != wanted.max_flows),
            ("metrics", now.metrics_address() != wanted.metrics_address()),
            ("user", now.user != wanted.user),
        ];
        let left = keys.into_iter().filter(|(_, is_another)| *is_another);
        done.left.extend(left.map(|(key, _)| key.to_owned()));
        Ok(done)
    }

    /// Renews the policy and its guard. The gateway's queue has neither.
    fn renew(
        &self,
        now: &mut Settings,
        wanted: &Settings,
        done: &mut Reloaded,
    ) -> anyhow::Result<()> {
        let Some(datapath) = &self.datapath else {
            return Ok(());
        };
        let mut is_another = false;
        if now.policy.policy() != wanted.policy.policy() {
            done.left.push("policy".to_owned());
        } else if now.policy != wanted.policy {
            datapath.renew(wanted.policy)?;
            now.policy = wanted.policy;
            done.changed.push(format!("policy {}", wanted.policy));
            is_another = true;
        }
        if now.guard != wanted.guard {
            now.guard.clone_from(&wanted.guard);
            done.changed.push(match wanted.guard.guard {
                Some(every) => format!("guard every {every:?}"),
                None => "no guard".to_owned(),
            });
            is_another = true;
        }
        if is_another {
            datapath.note_renewal();
        }
        Ok(())
    }

    /// Sets the rate of cake, if the old and the new one are fixed.
    fn set_rate(
        &self,
        now: &mut Settings,
        wanted: &Settings,
        done: &mut Reloaded,
    ) -> anyhow::Result<()> {
        let setter = self.setter();
        let (Some(old), Some(new), Some(setter)) = (now.uplink.rate, wanted.uplink.rate, &*setter)
        else {
            return Ok(());
        };
        if old == new || old.min_bps.is_some() || new.min_bps.is_some() {
            return Ok(());
        }
        setter.set(new.bps).context("setting the rate of cake")?;
        let began = Instant::now();
        // The kernel counts in bytes per second.
        while self.cake_rate_bps()? != Some((new.bps / 8).max(1) * 8) {
            if began.elapsed() > RATE_TIMEOUT {
                bail!("the rate of cake is not set: someone else has replaced the root queue");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        now.uplink.rate = wanted.uplink.rate;
        let shown = super::text::shaped(new.bps, None);
        done.changed.push(format!("up {shown}"));
        Ok(())
    }

    fn cake_rate_bps(&self) -> anyhow::Result<Option<u64>> {
        let found = Netlink::open().and_then(|mut it| it.qdiscs(self.index));
        let found = found.context("reading the queue disciplines")?;
        let root = found.iter().find(|qdisc| qdisc.is_root());
        Ok(root.and_then(ackwise_netdev::qdisc::Qdisc::cake_rate_bps))
    }
}

/// Asks the running `ackwise up` to read their file again.
pub fn reload(args: &ReloadArgs, format: Format) -> anyhow::Result<()> {
    let netns = netns_inode().context("reading the network namespace's inode")?;
    let mut responses = Responses::default();
    if args.interface.is_none() {
        responses.reload_all(netns)?;
    }
    let index = args.interface.as_deref().and_then(ifreq::index_of);
    // The others would read the same file.
    let running = match responses.mistakes[..] {
        [] => registry().list()?,
        _ => Vec::new(),
    };
    for record in running {
        let is_meant = match (&args.interface, index) {
            (None, _) => !responses.has(&record.interface),
            (Some(_), Some(index)) => record.index == index,
            (Some(name), None) => record.interface == *name,
        };
        if record.netns == netns && is_meant {
            responses.reload_one(&record);
        }
    }
    if let Some(name) = &args.interface
        && index.is_none()
        && responses.is_empty()
    {
        return Err(ackwise_netdev::Error::NoInterface(name.clone()).into());
    }
    responses.finish(args.interface.as_deref(), format)
}

/// The answers of the processes that were asked.
#[derive(Default)]
struct Responses {
    done: Vec<Reloaded>,
    mistakes: Vec<String>,
}

impl Responses {
    fn is_empty(&self) -> bool {
        self.done.is_empty() && self.mistakes.is_empty()
    }

    fn has(&self, interface: &str) -> bool {
        self.done.iter().any(|it| it.interface == interface)
    }

    fn reload_all(&mut self, netns: u64) -> anyhow::Result<()> {
        for first in all_processes().list()? {
            if first.netns == netns {
                let path = all_processes().socket_path(&first.key());
                self.add(ask(&UP_ALL_SERVICE, &path, first.pid)?);
            }
        }
        Ok(())
    }

    /// Asks one process. Its failure does not keep the others from being asked.
    fn reload_one(&mut self, record: &Record) {
        match ask(&UP_SERVICE, &socket_path(record), record.pid) {
            Ok(answer) => self.add(answer),
            Err(error) => self.done.push(Reloaded {
                failed: Some(in_line(&error)),
                ..Reloaded::of(&record.interface)
            }),
        }
    }

    fn add(&mut self, answer: Answer) {
        match answer {
            Answer::Done(done) => self.done.extend(done),
            Answer::Mistake(lines) => {
                let message = lines.join("\n");
                if !self.mistakes.contains(&message) {
                    self.mistakes.push(message);
                }
            }
        }
    }

    fn finish(self, named: Option<&str>, format: Format) -> anyhow::Result<()> {
        if self.is_empty() {
            bail!(
                "no `ackwise up` is running{}\n  `ackwise status` lists what else is attached",
                named.map(|name| format!(" on {name}")).unwrap_or_default()
            );
        }
        match format {
            Format::Json => {
                out::print_json(&json!({ "reloaded": self.done, "mistakes": self.mistakes }))?
            }
            Format::Text => {
                out::print(&self.done.iter().map(Reloaded::line).collect::<String>())?;
            }
        }
        if !self.mistakes.is_empty() {
            let hint = "correct the file; everything that reads it stays as it was";
            return Err(BadInput::new(self.mistakes.join("\n\n")).hint(hint).into());
        }
        let left = self.done.iter().filter(|it| !it.left.is_empty());
        let left: Vec<_> = left.map(|it| it.interface.as_str()).collect();
        if let Some(first) = left.first() {
            bail!(
                "not everything could be changed in place: {}\n  `ackwise down {first}`, then `ackwise \
                 up {first}` (or a restart of its service) does the rest",
                left.join(", ")
            );
        }
        let failed = self.done.iter().filter(|it| it.failed.is_some());
        let failed: Vec<_> = failed.map(|it| it.interface.as_str()).collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }
}
