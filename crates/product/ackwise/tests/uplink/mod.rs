//! A host behind a modem whose rate changes, for tests of a measured rate.
//!
//! ```text
//!   near ── up0 ──► modem ── out0 ──► far       the modem's queue is before out0
//! ```
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackwise_netdev::netlink::Netlink;
use ackwise_testbed::Netns;
use ackwise_testbed::program::must;

/// The delay of the return path, ms; the other direction has none.
const WAY_BACK_MS: u32 = 40;

/// The network, in namespaces of these names.
pub struct Uplink {
    tc: Child,
    input: Option<ChildStdin>,
    /// The port of the next connection.
    port: u16,
}

/// Measurements over a period.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// The share of the possible bits that left the modem.
    pub utilisation: f64,
    /// The waits in the modem's queue, sampled every 20 ms, ms, sorted.
    pub modem_ms: Vec<f64>,
    /// The round-trip times of a sparse flow beyond the minimum, ms, sorted.
    pub sparse_ms: Vec<f64>,
}

/// The value of a sorted list at this quantile.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => sorted[((n - 1) as f64 * part) as usize],
    }
}

/// Runs `work` in a thread inside a namespace.
pub fn inside<T: Send + 'static>(
    namespace: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Netns::named(namespace).spawn(work)
}

/// A program in the near namespace.
pub fn near(program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", "near", program]);
    command.env_remove("RUST_LOG").env_remove("NOTIFY_SOCKET");
    command
}

impl Uplink {
    /// Creates the network, with a queue of this many bytes in the modem.
    pub fn new(rate_bps: u64, queue_bytes: u64) -> Self {
        for namespace in ["near", "modem", "far"] {
            must(&format!("ip netns add {namespace}"));
            must(&format!("ip -n {namespace} link set lo up"));
        }
        must("ip link add up0 netns near type veth peer name in0 netns modem");
        must("ip link add out0 netns modem type veth peer name net0 netns far");
        for (namespace, device, address) in [
            ("near", "up0", "10.1.0.1/24"),
            ("modem", "in0", "10.1.0.2/24"),
            ("modem", "out0", "10.2.0.1/24"),
            ("far", "net0", "10.2.0.2/24"),
        ] {
            must(&format!(
                "ip -n {namespace} addr add {address} dev {device}"
            ));
            must(&format!("ip -n {namespace} link set {device} up"));
            must(&format!(
                "ip netns exec {namespace} ethtool -K {device} tso off gso off gro off"
            ));
        }
        must("ip netns exec modem sysctl -q -w net.ipv4.ip_forward=1");
        must("ip -n near route add default via 10.1.0.2");
        must("ip -n far route add default via 10.2.0.1");
        must(&format!(
            "tc -n modem qdisc add dev in0 root netem delay {WAY_BACK_MS}ms limit 20000"
        ));
        must("tc -n modem qdisc add dev out0 root handle 1: htb default 1");
        must(&format!(
            "tc -n modem class add dev out0 parent 1: classid 1:1 {}",
            class(rate_bps)
        ));
        must(&format!(
            "tc -n modem qdisc add dev out0 parent 1:1 bfifo limit {queue_bytes}"
        ));
        let mut tc = Command::new("tc")
            .args(["-n", "modem", "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let input = tc.stdin.take();
        Self {
            tc,
            input,
            port: 5000,
        }
    }

    /// Limits the return path to a rate and a queue of this many packets; its delay varies by up to
    /// `jitter_ms` from packet to packet.
    pub fn limit_downlink(&self, rate_bps: u64, packets: u32, jitter_ms: u32) {
        must(&format!(
            "tc -n modem qdisc change dev in0 root netem delay {WAY_BACK_MS}ms {jitter_ms}ms \
             rate {rate_bps}bit limit {packets}"
        ));
    }

    /// Changes the modem's rate.
    pub fn set_rate(&mut self, rate_bps: u64) {
        let input = self.input.as_mut().unwrap();
        writeln!(
            input,
            "class change dev out0 parent 1: classid 1:1 {}",
            class(rate_bps)
        )
        .unwrap();
        input.flush().unwrap();
    }

    /// Applies `rates`, one per 100 ms, while `uploads` connections send as much as they can. The
    /// results of the first `warm` rates do not count. `at_rate` is called for each rate.
    pub fn measure(
        &mut self,
        rates: &[u64],
        warm: usize,
        uploads: usize,
        mut at_rate: impl FnMut(usize, u64),
    ) -> Measured {
        let end = Arc::new(AtomicBool::new(false));
        let mut traffic = Vec::new();
        for _ in 0..uploads {
            self.port += 1;
            traffic.push(upload(self.port, &end));
        }
        let sparse = sparse(&end);
        let modem_backlogs = modem(&end);
        let began = Instant::now();
        let (mut sent, mut could) = (0_u64, 0_u64);
        let mut start = Duration::ZERO;
        for (index, rate) in rates.iter().enumerate() {
            if index == warm {
                (sent, start) = (modem_sent(), began.elapsed());
            }
            self.set_rate(*rate);
            at_rate(index, *rate);
            let next = Duration::from_millis(100) * (index as u32 + 1);
            std::thread::sleep(next.saturating_sub(began.elapsed()));
            if index >= warm {
                could += rate / 10;
            }
        }
        let sent = modem_sent() - sent;
        end.store(true, Ordering::Relaxed);
        let (sparse, backlogs) = (sparse.join().unwrap(), modem_backlogs.join().unwrap());
        traffic.drain(..).for_each(|thread| thread.join().unwrap());
        let rate_at = |at: Duration| rates[(at.as_millis() as usize / 100).min(rates.len() - 1)];
        let least = sparse
            .iter()
            .map(|(_, elapsed)| *elapsed)
            .min()
            .unwrap_or_default();
        let mut measured = Measured {
            utilisation: sent as f64 * 8.0 / could as f64,
            modem_ms: backlogs
                .iter()
                .filter(|(at, _)| *at >= start && at.as_millis() < rates.len() as u128 * 100)
                .map(|(at, bytes)| *bytes as f64 * 8e3 / rate_at(*at) as f64)
                .collect(),
            sparse_ms: sparse
                .iter()
                .filter(|(at, _)| *at >= start)
                .map(|(_, elapsed)| (*elapsed - least).as_secs_f64() * 1e3)
                .collect(),
        };
        measured.modem_ms.sort_by(f64::total_cmp);
        measured.sparse_ms.sort_by(f64::total_cmp);
        measured
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.tc.wait();
        for namespace in ["near", "modem", "far"] {
            let _ = Command::new("ip")
                .args(["netns", "del", namespace])
                .status();
        }
    }
}

fn class(rate_bps: u64) -> String {
    format!("htb rate {rate_bps}bit ceil {rate_bps}bit burst 1600 cburst 1600")
}

/// Sends to the far end as much as it can.
pub fn upload(port: u16, end: &Arc<AtomicBool>) -> JoinHandle<()> {
    let listener = inside("far", move || {
        TcpListener::bind(("10.2.0.2", port)).unwrap()
    });
    let listener = listener.join().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 1 << 16];
        while stream.read(&mut bytes).is_ok_and(|n| n > 0) {}
    });
    let end = Arc::clone(end);
    inside("near", move || {
        let mut stream = TcpStream::connect(("10.2.0.2", port)).unwrap();
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let bytes = vec![0; 1 << 14];
        while !end.load(Ordering::Relaxed) {
            let _ = stream.write(&bytes);
        }
    })
}

/// Downloads that run until they are ended.
pub struct Downloads {
    end: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Downloads {
    /// The far end sends as much as it can, and pauses for this long after each 200 kB.
    pub fn start(count: u16, pause: Duration) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let bytes = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for port in 6000..6000 + count {
            let listener = inside("far", move || {
                TcpListener::bind(("10.2.0.2", port)).unwrap()
            });
            let listener = listener.join().unwrap();
            let ended = Arc::clone(&end);
            threads.push(std::thread::spawn(move || {
                let (stream, _) = listener.accept().unwrap();
                send_chunks(stream, pause, &ended);
            }));
            let counted = Arc::clone(&bytes);
            threads.push(inside("near", move || {
                let mut stream = TcpStream::connect(("10.2.0.2", port)).unwrap();
                let mut taken = vec![0; 1 << 16];
                while let Ok(n @ 1..) = stream.read(&mut taken) {
                    counted.fetch_add(n as u64, Ordering::Relaxed);
                }
            }));
        }
        Self {
            end,
            bytes,
            threads,
        }
    }

    /// The bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

fn send_chunks(mut stream: TcpStream, pause: Duration, end: &AtomicBool) {
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let bytes = vec![0; 1 << 14];
    let mut sent = 0;
    while !end.load(Ordering::Relaxed) {
        sent += stream.write(&bytes).unwrap_or(0);
        if sent >= 200_000 {
            std::thread::sleep(pause);
            sent = 0;
        }
    }
}

/// Queries the far end every 20 ms; returns when each answer arrived, and how long it took.
fn sparse(end: &Arc<AtomicBool>) -> JoinHandle<Vec<(Duration, Duration)>> {
    let far = inside("far", || UdpSocket::bind("10.2.0.2:0").unwrap());
    let far = far.join().unwrap();
    let address = far.local_addr().unwrap();
    far.set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let (ended, ended_too) = (Arc::clone(end), Arc::clone(end));
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while !ended.load(Ordering::Relaxed) {
            if let Ok((n, from)) = far.recv_from(&mut bytes) {
                let _ = far.send_to(&bytes[..n], from);
            }
        }
    });
    inside("near", move || {
        let socket = UdpSocket::bind("10.1.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let began = Instant::now();
        let answers = socket.try_clone().unwrap();
        let ended = Arc::clone(&ended_too);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut bytes = [0; 8];
            while !ended.load(Ordering::Relaxed) {
                if answers.recv(&mut bytes).is_ok_and(|n| n == 8) {
                    let sent_at = Duration::from_nanos(u64::from_ne_bytes(bytes));
                    all.push((sent_at, began.elapsed() - sent_at));
                }
            }
            all
        });
        while !ended_too.load(Ordering::Relaxed) {
            let now = began.elapsed().as_nanos() as u64;
            let _ = socket.send(&now.to_ne_bytes());
            std::thread::sleep(Duration::from_millis(20));
        }
        reader.join().unwrap()
    })
}

/// Samples the modem's queue every 20 ms; returns the waiting bytes.
fn modem(end: &Arc<AtomicBool>) -> JoinHandle<Vec<(Duration, u64)>> {
    let end = Arc::clone(end);
    inside("modem", move || {
        let mut netlink = Netlink::open().unwrap();
        let began = Instant::now();
        let mut all = Vec::new();
        while !end.load(Ordering::Relaxed) {
            let queues = netlink.qdisc_stats().unwrap();
            let fifo = queues
                .iter()
                .find(|it| it.parent == Some(0x1_0001))
                .unwrap();
            all.push((began.elapsed(), u64::from(fifo.bytes)));
            std::thread::sleep(Duration::from_millis(20));
        }
        all
    })
}

/// The bytes that have left the modem.
fn modem_sent() -> u64 {
    let read = inside("modem", || {
        let file = std::fs::File::open("/proc/thread-self/net/dev").unwrap();
        let mut lines = BufReader::new(file).lines().map_while(Result::ok);
        let line = lines.find(|line| line.trim().starts_with("out0:")).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        words[9].parse().unwrap()
    });
    read.join().unwrap()
}
