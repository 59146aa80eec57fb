//! Restored packets that the kernel receives in batches: the same ones, once each, in order,
//! without privileges, and also where the kernel does not cooperate.

mod common;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_headers::{checksum, protocol};
use ackwise_netdev::Interface;
use ackwise_netdev::raw_socket::{self, SockProtocol};
use ackwise_testbed::refuse;
use ackwise_tunneld::{AttachMode, Config, Daemon, Delivery, Prepared, Stats};
use aya::maps::MapInfo;
use aya::programs::{ProgramInfo, loaded_programs};
use common::{Capture, Sites, ack_from, alone, ip, is_up, peer, transfer, until};
use nix::sys::socket::MsgFlags;

/// The number of flows of each family.
const FLOWS: u16 = 4;
const EACH: u32 = 60;
const FIRST_PORT: u16 = 20_000;
const PERIOD: &str = "period = \"20 ms\"\nfollow_rtt = false";

/// The packets that were sent from a flow's port, or that arrived from it.
type Flows = BTreeMap<u16, Vec<Vec<u8>>>;

/// Advancing ACKs of all flows in turn, starting over for each `round`.
fn acks(round: u32) -> Vec<(u16, Vec<u8>)> {
    let numbers = (0..EACH).map(|n| 1 + (round * EACH + n) * 2896);
    let flows = 0..2 * FLOWS;
    numbers
        .flat_map(|number| flows.clone().map(move |flow| (flow, number)))
        .map(|(flow, number)| (FIRST_PORT + flow, ack(flow < FLOWS, flow, number)))
        .collect()
}

fn ack(v4: bool, flow: u16, number: u32) -> Vec<u8> {
    let mut packet = if v4 {
        vec![
            0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 1, 1, 10, 9, 3, 2,
        ]
    } else {
        let mut header = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        for (network, host) in [(1, 1), (3, 2)] {
            header.extend([0xfd, 9, 0, network, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
        header
    };
    let (at, addresses) = if v4 { (20, 12) } else { (40, 8) };
    packet.extend((FIRST_PORT + flow).to_be_bytes());
    packet.extend(7_u16.to_be_bytes());
    packet.extend(7777_u32.to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let sum = checksum::of_segment(&packet[addresses..at], protocol::TCP, &packet[at..]);
    packet[at + 16..at + 18].copy_from_slice(&sum);
    packet
}

/// The address of the server.
fn server(v4: bool) -> IpAddr {
    if v4 {
        IpAddr::from([10, 9, 3, 2])
    } else {
        IpAddr::from(<[u8; 16]>::try_from(&ack(false, 0, 0)[24..40]).unwrap())
    }
}

fn send(sites: &Sites, packets: &[(u16, Vec<u8>)]) {
    sites.host.run(|| {
        let open = |v6| raw_socket::open(v6, SockProtocol::Raw).unwrap();
        let sockets = [open(false), open(true)];
        for (_, packet) in packets {
            let v4 = packet[0] >> 4 == 4;
            let socket = &sockets[usize::from(!v4)];
            raw_socket::send(socket, packet, server(v4), MsgFlags::empty()).unwrap();
        }
    });
}

/// The packets of each flow in these frames, in the form that is the same at every hop.
fn by_flow<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Flows {
    let mut flows = Flows::new();
    for frame in frames {
        for port in FIRST_PORT..FIRST_PORT + 2 * FLOWS {
            if let Some(packet) = ack_from(port, frame) {
                flows.entry(port).or_default().push(packet);
            }
        }
    }
    flows
}

fn as_sent(packets: &[(u16, Vec<u8>)]) -> Flows {
    let frames = packets.iter().map(|(_, packet)| {
        let kind = if packet[0] >> 4 == 4 {
            [0x08, 0x00]
        } else {
            [0x86, 0xdd]
        };
        [&[0; 12][..], &kind, packet].concat()
    });
    by_flow(frames.collect::<Vec<_>>().iter().map(Vec::as_slice))
}

/// Sends a round, and checks that it arrives unchanged. On a busy machine ACKs bypass the tunnel,
/// and may be overtaken: then each must only arrive once. Returns whether all were in the tunnel.
fn round(sites: &Sites, ends: &[Daemon; 2], number: u32) -> bool {
    let [far, near] = ends;
    let beside = |stats: &Stats| stats.unattended + stats.overrun + stats.bypassed;
    let before = (peer(far).packets_out.packets, beside(&near.stats()));
    let packets = acks(number);
    let capture = Capture::start(&sites.server, "net1");
    send(sites, &packets);
    let all = packets.len() as u64;
    // The counters are updated several times per second.
    until("all of them", || {
        let restored = peer(far).packets_out.packets - before.0;
        (restored + beside(&near.stats()) - before.1 >= all).then_some(())
    });
    thread::sleep(Duration::from_millis(100));
    let frames = capture.end();
    let mut arrived = by_flow(frames.iter().map(Vec::as_slice));
    let mut sent = as_sent(&packets);
    let whole = peer(far).packets_out.packets - before.0 == all;
    if !whole {
        for flow in arrived.values_mut().chain(sent.values_mut()) {
            flow.sort_unstable();
        }
    }
    for (port, sent) in &sent {
        let received = arrived.remove(port).unwrap_or_default();
        let at = received
            .iter()
            .zip(sent)
            .position(|(received, sent)| received != sent);
        assert!(
            received == *sent,
            "port {port}: {} of {} came; differs from {at:?} on: {:02x?} for {:02x?}",
            received.len(),
            sent.len(),
            at.map(|at| &received[at]),
            at.map(|at| &sent[at]),
        );
    }
    assert!(arrived.is_empty());
    assert_eq!(peer(far).failures.not_delivered, 0);
    whole
}

/// Creates both ends, the far one by `start`.
fn tunnel(sites: &Sites, start: impl FnOnce(Config) -> Daemon + Send) -> [Daemon; 2] {
    let config = sites.far_config(PERIOD);
    let far = sites.far.run(|| start(config));
    let ends = [far, sites.start(&sites.near, sites.near_config(PERIOD))];
    until("the tunnel", || ends.iter().all(is_up).then_some(()));
    // Let neighbours resolve each other: few packets are queued for unresolved ones.
    for to in ["10.9.1.1:5001", "[fd09:1::1]:5001"] {
        transfer(&sites.server, &sites.host, to, 10_000);
    }
    ends
}

#[test]
fn hundreds_arrive_as_they_were_without_any_right() {
    let _alone = alone();
    let sites = Sites::new();
    let ends = tunnel(&sites, |config| {
        let mut prepared = Prepared::new(config, AttachMode::Auto).unwrap();
        prepared.drop_privileges().unwrap();
        prepared.start().unwrap()
    });
    let whole = (0..10).filter(|n| round(&sites, &ends, *n)).count();
    assert!(whole > 0, "{:#?}", ends[1].stats());
    // As they arrive, with nothing before or after them.
    let capture = Capture::start(&sites.far, "awtun0");
    round(&sites, &ends, 10);
    let mut lens: Vec<usize> = capture.end().iter().map(Vec::len).collect();
    lens.sort_unstable();
    lens.dedup();
    assert_eq!(lens, [40, 60]);
    let restored = ends[0].stats().restored;
    assert_eq!(
        (restored.delivery, &restored.reason),
        (Delivery::Batched, &None)
    );
    assert_eq!(restored.interrupted, 0);
    assert!(restored.batched > 1000, "{restored:?}");
    assert!(restored.batched >= 16 * restored.calls, "{restored:?}");
}

#[test]
fn a_kernel_that_refuses_gets_them_one_by_one() {
    let _alone = alone();
    let sites = Sites::new();
    let ends = tunnel(&sites, |config| {
        let prepared = Prepared::new(config, AttachMode::Auto).unwrap();
        refuse_test_runs();
        prepared.start().unwrap()
    });
    let whole = (0..10).filter(|n| round(&sites, &ends, *n)).count();
    assert!(whole > 0, "{:#?}", ends[1].stats());
    let restored = ends[0].stats().restored;
    assert_eq!((restored.batched, restored.calls), (0, 0));
    assert_eq!(restored.delivery, Delivery::Single);
    let why = restored.reason.unwrap();
    assert!(why.contains("not permitted"), "{why}");
    transfer(&sites.server, &sites.host, "10.9.1.1:5001", 4_000_000);
}

/// Without the device that the program is attached to, each call would take long.
#[test]
fn the_device_of_the_program_is_deleted() {
    let _alone = alone();
    let sites = Sites::new();
    let ends = tunnel(&sites, |config| {
        Daemon::start(config, AttachMode::Auto).unwrap()
    });
    round(&sites, &ends, 0);
    assert_eq!(ends[0].stats().restored.delivery, Delivery::Batched);
    sites.far.run(|| ip("link delete awtunput0"));
    let restored = until("another way", || {
        let restored = ends[0].stats().restored;
        (restored.delivery == Delivery::Single).then_some(restored)
    });
    assert!(restored.reason.unwrap().contains("awtunput0"));
    let whole = (1..10).filter(|n| round(&sites, &ends, *n)).count();
    assert!(whole > 0, "{:#?}", ends[1].stats());
    assert_eq!(ends[0].stats().restored.batched, restored.batched);
}

/// For this thread, and those that it starts.
fn refuse_test_runs() {
    const BPF_PROG_TEST_RUN: u32 = 10;
    refuse(libc::SYS_bpf, Some(BPF_PROG_TEST_RUN), libc::EPERM).expect("a filter");
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// A signal ends the kernel's work between two batches of packets; the others are written.
#[test]
fn signals_in_between_lose_and_double_nothing() {
    let _alone = alone();
    let sites = Sites::new();
    let ends = tunnel(&sites, |config| {
        Daemon::start(config, AttachMode::Auto).unwrap()
    });
    // SAFETY: a handler that does nothing; no flags, so that system calls are interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
            0
        );
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let workers = workers();
            assert_eq!(workers.len(), 2);
            while !over.load(Ordering::Acquire) {
                for worker in &workers {
                    // SAFETY: no pointers; both threads live as long as the daemons.
                    unsafe {
                        libc::syscall(libc::SYS_tgkill, libc::getpid(), *worker, libc::SIGUSR1)
                    };
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        let _end = AtEnd(&over);
        let interrupted = || ends[0].stats().restored.interrupted > 0;
        let mut whole = 0;
        for n in 0..200 {
            whole += usize::from(round(&sites, &ends, n));
            if whole > 0 && interrupted() {
                break;
            }
        }
        assert!(whole > 0 && interrupted(), "{:#?}", ends[0].stats());
    });
    assert_eq!(ends[0].stats().restored.delivery, Delivery::Batched);
}

/// Reports the end, also when the test fails.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The threads that move packets.
fn workers() -> Vec<libc::pid_t> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks
        .filter(|task| {
            let name = std::fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name.trim() == "ackwise-tunnel")
        })
        .map(|task| task.file_name().to_str().unwrap().parse().unwrap())
        .collect()
}

/// `union bpf_attr` for this command.
const BPF_PROG_TEST_RUN: libc::c_int = 10;
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    said: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    pad: u32,
}

/// Runs the program that receives packets, for which one of them waits, as if through a device of
/// this namespace. Returns its verdict, and how many packets it took.
fn run_as_if_by(info: ProgramInfo, device: &str) -> (u32, u32) {
    const LONGEST: usize = 128;
    const XDP_MD: usize = 24;
    let maps = info.map_ids().unwrap().unwrap_or_default();
    let maps = maps.into_iter().map(|id| MapInfo::from_id(id).unwrap());
    let named = |map: &MapInfo| map.name_as_str() == Some("inject");
    let fd = maps.into_iter().find(named).unwrap().fd().unwrap();
    // `next`, `count`, lengths, packets: `bpf/inject_shared.h`.
    let size = 8 + 512 * 2 + 512 * LONGEST;
    // SAFETY: a new mapping of a map of this size, which nobody else uses now.
    let shared = unsafe {
        let (fd, may) = (fd.as_fd().as_raw_fd(), libc::PROT_READ | libc::PROT_WRITE);
        let at = libc::mmap(std::ptr::null_mut(), size, may, libc::MAP_SHARED, fd, 0);
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        std::slice::from_raw_parts_mut(at.cast::<u8>(), size)
    };
    shared[..10].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0, 40, 0]);
    shared[8 + 512 * 2] = 0x45;
    let mut context = [0; XDP_MD];
    context[4..8].copy_from_slice(&(14 + LONGEST as u32).to_ne_bytes());
    let index = Interface::find(device).unwrap().index;
    context[12..16].copy_from_slice(&index.to_ne_bytes());
    let (program, frame) = (info.fd().unwrap(), [0; 14 + LONGEST]);
    let mut run = TestRun {
        program: program.as_fd().as_raw_fd() as u32,
        size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: 1,
        context_size_in: XDP_MD as u32,
        context_in: context.as_ptr() as u64,
        ..TestRun::default()
    };
    // SAFETY: an attribute of the given size; what it points to outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            &raw mut run,
            size_of::<TestRun>(),
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let said = run.said;
    let taken = u32::from_ne_bytes(shared[..4].try_into().unwrap());
    // SAFETY: as it was mapped; nothing refers to it any longer.
    unsafe { libc::munmap(shared.as_mut_ptr().cast(), size) };
    (said, taken)
}

/// The ids of the BPF programs of which this process has descriptors.
fn own_programs() -> Vec<u32> {
    let files = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = files.flat_map(|file| std::fs::read_to_string(file.path()));
    texts
        .flat_map(|text| {
            let number = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
            number.map(|number| number.trim().parse().unwrap())
        })
        .collect()
}

/// A process with the program's descriptor needs no privilege to run it, and chooses the device.
#[test]
fn packets_come_in_by_the_tunnel_s_own_device_only() {
    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    let _alone = alone();
    let sites = Sites::new();
    let far = sites.start(&sites.far, sites.far_config(PERIOD));
    until("the way in", || {
        (far.stats().restored.delivery == Delivery::Batched).then_some(())
    });
    // Other processes may have tunnels of their own.
    let ours = own_programs();
    let run = |device: &str| {
        let programs = loaded_programs().flatten();
        let named = |info: &ProgramInfo| {
            info.name_as_str() == Some("ackwise_inject") && ours.contains(&info.id())
        };
        let info = programs.into_iter().find(named).unwrap();
        sites.far.run(|| run_as_if_by(info, device))
    };
    assert_eq!(run("awtun0"), (XDP_PASS, 1));
    assert_eq!(run("net0"), (XDP_DROP, 0));
}
