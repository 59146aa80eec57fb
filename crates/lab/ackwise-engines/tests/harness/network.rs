//! A network in namespaces, with an emulated link, and transfers over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_datapath::{Datapath, Options, Position, Stats, control};
use ackwise_engines::clock::{nanos, now_ns};
use ackwise_engines::count::{FlowPort, WireCounter};
use ackwise_engines::emulator::{Emulator, EmulatorConfig, EmulatorReport};
use ackwise_engines::netns;
use ackwise_engines::topology::{BuiltLink, LinkBackend, Topology, emulated};
use ackwise_engines::traffic::socket::Limits;
use ackwise_engines::traffic::{self, Behaviour, Job, Live, Outcome, Prepared};
use ackwise_scenario::Scenario;

use super::tamper::{Tamper, Touch, interpose};
use super::{Need, exactly};

/// Port of the first flow; later flows use the following ports.
pub const PORT: u16 = 5001;
/// Interval of the series of what crossed the link, ns.
pub const INTERVAL_NS: u64 = 20_000_000;
/// Interval between two looks at the receiver's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Linux's minimum retransmission timeout, TCP_RTO_MIN.
const RTO_MIN: Duration = Duration::from_millis(200);

/// Changes the options of a datapath.
pub type Tune = fn(&mut Options);

/// The fault of a case, and its requirements.
pub struct Case {
    pub name: String,
    /// Keys of the link "wan" between the sender and the receiver (or router).
    pub link: String,
    /// Whether there is a router, with a plain veth to the receiver.
    pub router: bool,
    /// Additional keys of the flow.
    pub flow: String,
    /// Keys of the flow's sockets.
    pub socket: String,
    /// Kernel parameters: node, name, value.
    pub sysctl: Vec<(&'static str, &'static str, &'static str)>,
    pub cc: &'static str,
    pub seconds: f64,
    pub behaviour: Vec<Behaviour>,
    /// Position of the datapath, which is on an interface of the link "wan".
    pub place: Position,
    pub tune: Tune,
    /// Runs while traffic flows.
    pub during: fn(&Network),
    /// Modifies frames between the sender and the link.
    pub tamper: Option<Touch>,
    /// Requirements with `adaptive`, and with `every-n`.
    pub need: [Need; 2],
    /// Number of consecutive retransmission timeouts that are allowed, each twice as long as the
    /// one before.
    pub timeouts: u32,
    /// A pause of the receiver that the case itself causes.
    pub pause: Duration,
    /// Whether another program holds the datapath's locks for a third of the time.
    pub contend_locks: bool,
}

fn nothing_to_tune(_: &mut Options) {}
fn nothing_happens(_: &Network) {}

/// The default link of a case.
pub const LINK: &str = r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets" }"#;

impl Case {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            link: LINK.to_owned(),
            router: false,
            flow: String::new(),
            socket: String::new(),
            sysctl: Vec::new(),
            cc: "cubic",
            seconds: 2.0,
            behaviour: Vec::new(),
            place: Position::Receiver,
            tune: nothing_to_tune,
            during: nothing_happens,
            tamper: None,
            need: [Need::Some, Need::Some],
            timeouts: 1,
            pause: Duration::ZERO,
            contend_locks: false,
        }
    }

    pub fn link(mut self, link: &str) -> Self {
        self.link = link.to_owned();
        self
    }

    pub fn socket(mut self, socket: &str) -> Self {
        self.socket = socket.to_owned();
        self
    }

    pub fn sysctl(mut self, node: &'static str, name: &'static str, value: &'static str) -> Self {
        self.sysctl.push((node, name, value));
        self
    }

    fn scenario(&self) -> Scenario {
        let sysctl = |node: &str| {
            let pairs: Vec<String> = self
                .sysctl
                .iter()
                .filter(|(at, ..)| *at == node)
                .map(|(_, name, value)| format!("\"{name}\" = \"{value}\""))
                .collect();
            format!("sysctl = {{ {} }}", pairs.join(", "))
        };
        let (router, first) = if self.router {
            let router = format!(
                r#"
                [[node]]
                name = "router"
                kind = "router"
                {}
                [[link]]
                name = "lan"
                between = ["router", "receiver"]
                "#,
                sysctl("router")
            );
            (router, "router")
        } else {
            (String::new(), "receiver")
        };
        let text = format!(
            r#"
            [scenario]
            name = "fault"
            duration = "{} ms"
            [[node]]
            name = "sender"
            {}
            [[node]]
            name = "receiver"
            {}
            {router}
            [[link]]
            name = "wan"
            between = ["sender", "{first}"]
            {}
            [[flow]]
            name = "bulk"
            from = "sender"
            to = "receiver"
            app = "bulk"
            {}
            [flow.socket]
            {}
            [sweep]
            cc = ["{}"]
            [[arm]]
            name = "baseline"
            "#,
            (self.seconds * 1000.0) as u64,
            sysctl("sender"),
            sysctl("receiver"),
            self.link,
            self.flow,
            self.socket,
            self.cc,
        );
        Scenario::parse("fault.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A running network, removed on drop.
pub struct Network {
    emulator: Option<Emulator>,
    pub tamper: Option<Tamper>,
    pub topology: Topology,
    pub scenario: Scenario,
    pub live: Live,
    abort: Arc<AtomicBool>,
    counted_since: u64,
    start_ns: AtomicU64,
}

/// The observations of a transfer.
pub struct Ran {
    pub outcome: Outcome,
    /// Times, and the bytes that the receiver had by then.
    pub progress: Vec<(u64, u64)>,
    /// Longest time for which the observer itself was not scheduled.
    noise: Duration,
    /// Largest smoothed round-trip time.
    srtt: Duration,
    pub wire: Option<EmulatorReport>,
}

impl Network {
    pub fn build(case: &Case) -> Self {
        let scenario = case.scenario();
        let mut topology = Topology::build(&scenario, LinkBackend::Emulator)
            .unwrap_or_else(|error| panic!("{error}"));
        let wan = scenario
            .links
            .iter()
            .position(|link| link.name == "wan")
            .expect("wan");
        let BuiltLink::Taps(mut taps) =
            std::mem::replace(&mut topology.links[wan], BuiltLink::Veth)
        else {
            panic!("the link is not emulated");
        };
        let tamper = case.tamper.map(|touch| {
            let (tamper, inner) = interpose(&taps[0], touch);
            taps[0] = inner;
            tamper
        });
        let link = &scenario.links[wan];
        let start_ns = now_ns();
        let emulator = Emulator::start(EmulatorConfig {
            name: link.name.clone(),
            taps,
            directions: [emulated(&link.forward, 7, 0), emulated(&link.reverse, 7, 1)],
            changes: [None, None],
            half_duplex: false,
            wifi: None,
            police: [None, None],
            mtu: link.mtu,
            counter: WireCounter::new(
                vec![FlowPort {
                    port: PORT,
                    data_to_port: true,
                }],
                start_ns,
                INTERVAL_NS,
            ),
            captures: [None, None],
            spin_ns: 0,
            sample_ns: 0,
            start_ns,
        })
        .unwrap_or_else(|error| panic!("{error}"));
        Self {
            emulator: Some(emulator),
            tamper,
            topology,
            scenario,
            live: Live::default(),
            abort: Arc::default(),
            counted_since: start_ns,
            start_ns: start_ns.into(),
        }
    }

    pub fn node(&self, name: &str) -> usize {
        self.scenario
            .nodes
            .iter()
            .position(|node| node.name == name)
            .unwrap_or_else(|| panic!("no node {name}"))
    }

    /// Runs a closure on a thread in a node's namespace.
    pub fn inside<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> T {
        self.topology.namespaces[self.node(node)]
            .inside(|| Ok(work()))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// A node's interface on a link.
    pub fn interface(&self, node: &str, link: &str) -> String {
        let node = self.node(node);
        self.topology
            .plan
            .interfaces_of(node)
            .find(|(_, one)| self.scenario.links[one.link].name == link)
            .map(|(_, one)| one.name.clone())
            .unwrap_or_else(|| panic!("no interface on {link}"))
    }

    /// A node's IPv4 address on a link.
    pub fn address(&self, node: &str, link: &str) -> std::net::Ipv4Addr {
        let node = self.node(node);
        self.topology
            .plan
            .interfaces_of(node)
            .find(|(_, one)| self.scenario.links[one.link].name == link)
            .and_then(|(_, one)| one.v4)
            .expect("an address")
    }

    pub fn attach(&self, node: &str, options: Options) -> Datapath {
        self.inside(node, || {
            Datapath::attach(options).unwrap_or_else(|error| panic!("{error}"))
        })
    }

    pub fn detach(&self, node: &str, attachment: Datapath) -> Stats {
        let stats = self.inside(node, || {
            attachment
                .detach()
                .unwrap_or_else(|error| panic!("detaching: {error}"))
        });
        self.nobody_attached(node);
        stats
    }

    /// Asserts that no datapath holds an interface of the node.
    pub fn nobody_attached(&self, node: &str) {
        let netns = self.inside(node, namespace_inode);
        let holders: Vec<_> = control::list()
            .unwrap_or_else(|error| panic!("{error}"))
            .into_iter()
            .filter(|holder| holder.netns == netns)
            .collect();
        assert!(holders.is_empty(), "still attached: {holders:?}");
    }

    /// Makes the path silently lose larger packets from now on.
    pub fn black_hole(&self, mtu: u32) {
        self.emulator.as_ref().expect("runs").lose_larger_than(mtu);
    }

    /// Time since traffic began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(now_ns().saturating_sub(self.start_ns()))
    }

    /// When traffic begins.
    pub fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Relaxed)
    }

    /// Sleeps until this long after the start.
    pub fn at(&self, when: Duration) {
        thread::sleep(when.saturating_sub(self.elapsed()));
    }

    /// Ends the transfer early, as a failure.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    /// Start of the series of what crossed the link.
    pub fn counted_since(&self) -> u64 {
        self.counted_since
    }

    fn job(&self, case: &Case, stop_ns: u64) -> Job {
        let (from, to) = (self.node("sender"), self.node("receiver"));
        let flow = &self.scenario.flows[0];
        let path = self.topology.plan.path(from, to).expect("a path");
        let address = self
            .topology
            .plan
            .address_at_end(&path, flow.socket.ip)
            .expect("an address");
        Job {
            name: flow.name.clone(),
            app: flow.app.clone(),
            cc: case.cc.to_owned(),
            options: flow.socket.clone(),
            server: (address, PORT).into(),
            from: self.topology.entrance(from).expect("entrance"),
            to: self.topology.entrance(to).expect("entrance"),
            connections: flow.connections,
            seed: 11,
            start_ns: self.start_ns(),
            stop_ns,
            behaviour: case.behaviour.clone(),
        }
    }

    /// Runs the transfer, and `during` meanwhile.
    pub fn run(&self, case: &Case, during: impl FnOnce(&Self)) -> Ran {
        // Attaching takes time, so the start is set only now.
        self.start_ns
            .store(now_ns() + 50_000_000, Ordering::Relaxed);
        let stop_ns = self.start_ns() + nanos(self.scenario.duration);
        let limits = Limits {
            cancel: Arc::default(),
            abort: Arc::clone(&self.abort),
            failed: None,
            deadline_ns: stop_ns + 30_000_000_000,
        };
        let prepared: Prepared = traffic::prepare(self.job(case, stop_ns))
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&self.live, &done));
            let flow = scope.spawn(|| prepared.run(&self.live, &limits));
            // Whatever happens, the threads must end before this function does.
            let happened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| during(self)));
            if happened.is_err() {
                limits.abort.store(true, Ordering::Relaxed);
            }
            let outcome = flow.join();
            done.store(true, Ordering::Relaxed);
            let mut ran = watcher.join().expect("the watcher");
            if let Err(panic) = happened {
                std::panic::resume_unwind(panic);
            }
            ran.outcome = outcome.expect("the flow");
            ran
        })
    }

    /// Takes the network down and checks that nothing is left of it.
    pub fn finish(mut self, mut ran: Ran) -> Ran {
        let names: Vec<String> = self
            .topology
            .namespaces
            .iter()
            .map(|namespace| namespace.name().to_owned())
            .collect();
        ran.wire = self
            .emulator
            .take()
            .map(|emulator| emulator.finish().unwrap_or_else(|error| panic!("{error}")));
        drop(self);
        let left: Vec<String> = netns::own_namespaces()
            .into_iter()
            .filter(|name| names.contains(name))
            .collect();
        assert!(left.is_empty(), "namespaces are left: {left:?}");
        ran
    }
}

/// The inode of the calling thread's network namespace.
pub fn namespace_inode() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/thread-self/ns/net")
        .expect("a namespace")
        .ino()
}

/// Samples the receiver's progress.
fn watch(live: &Live, done: &AtomicBool) -> Ran {
    let mut ran = Ran {
        outcome: Outcome::default(),
        progress: Vec::new(),
        noise: Duration::ZERO,
        srtt: Duration::ZERO,
        wire: None,
    };
    let mut had = 0;
    let mut last = now_ns();
    let mut round = 0_u32;
    while !done.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
        let now = now_ns();
        let gap = Duration::from_nanos(now - last).saturating_sub(POLL_INTERVAL);
        ran.noise = ran.noise.max(gap);
        last = now;
        let bytes = live.bytes.load(Ordering::Relaxed);
        if bytes > had {
            had = bytes;
            ran.progress.push((now, bytes));
        }
        round = round.wrapping_add(1);
        if round.is_multiple_of(8) {
            for info in live.tcp_infos() {
                ran.srtt = ran.srtt.max(Duration::from_micros(info.rtt_us.into()));
            }
        }
    }
    ran
}

impl Ran {
    /// Longest time without a byte for the receiver, between its first and last.
    pub fn stall(&self) -> Duration {
        self.stall_between(0, u64::MAX)
    }

    /// Longest time without a byte for the receiver, among gaps that end after `from_ns` and begin
    /// before `to_ns`.
    pub fn stall_between(&self, from_ns: u64, to_ns: u64) -> Duration {
        self.progress
            .windows(2)
            .filter(|pair| pair[1].0 >= from_ns && pair[0].0 <= to_ns)
            .map(|pair| Duration::from_nanos(pair[1].0 - pair[0].0))
            .max()
            .unwrap_or_default()
    }

    /// Start of the longest of these gaps.
    pub fn stalled_at(&self) -> u64 {
        self.progress
            .windows(2)
            .max_by_key(|pair| pair[1].0 - pair[0].0)
            .map_or(0, |pair| pair[0].0)
    }

    /// Bytes that the receiver had at a time.
    pub fn bytes_at(&self, at_ns: u64) -> u64 {
        self.progress
            .iter()
            .take_while(|(at, _)| *at <= at_ns)
            .last()
            .map_or(0, |(_, bytes)| *bytes)
    }

    /// Upper bound of the sender's first timeout: RFC 6298 §2 with Linux's minimum.
    pub fn rto(&self) -> Duration {
        RTO_MIN + 3 * self.srtt
    }

    /// How long this machine delayed threads and frames; next to nothing in virtual time. It only
    /// widens the bound that the table shows.
    pub fn noise(&self) -> Duration {
        let late = self.wire.as_ref().map_or(0, |wire| wire.lateness.max());
        self.noise + Duration::from_nanos(late) + Duration::from_millis(50)
    }

    /// The longest stall that is not the datapath's fault.
    pub fn bound(&self, case: &Case) -> Duration {
        // 1, 1+2, 1+2+4, …: consecutive timeouts double (RFC 6298 §5.5).
        self.rto() * ((1 << case.timeouts) - 1) + case.pause + self.noise()
    }

    pub fn goodput_bps(&self) -> f64 {
        match (self.outcome.first_ns, self.outcome.last_ns) {
            (Some(first), Some(last)) if last > first => {
                self.outcome.bytes as f64 * 8e9 / (last - first) as f64
            }
            _ => 0.0,
        }
    }

    pub fn retransmits(&self) -> u64 {
        self.wire.as_ref().map_or(0, |wire| {
            wire.counter.flows().iter().map(|f| f.retransmits).sum()
        })
    }

    /// Asserts that the transfer ended, and that every byte is the one that was sent.
    pub fn assert_right(&self, what: &str) {
        assert_eq!(self.outcome.errors, Vec::<String>::new(), "{what}");
        let content = self.outcome.content.as_ref().expect("checked contents");
        assert!(content.ok, "{what}: {content:?}");
        assert_eq!(content.bytes, self.outcome.bytes, "{what}");
        // A live run has no guaranteed share of a machine: in three seconds it may get none.
        exactly(|| {
            assert!(
                self.outcome.bytes > 100_000,
                "{what}: fewer than 100 kB arrived"
            )
        });
    }
}
