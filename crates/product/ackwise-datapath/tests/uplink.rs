//! What flows are told about this host: who fills the link that their ACKs leave by, and whether
//! the CPU is busy; and what the programs count for this.

mod common;

use ackwise_datapath::{AttachMode, Context, Options, Position, Scripted, sys};
use ackwise_policy::UPLINK_FULL_BYTES;
use common::{Flow, Pair, Seg, Wire, alone, attach, eventually, ms, output, tc};

const SECOND: u64 = 1_000_000_000;

fn load(options: &Options) -> Scripted {
    Scripted::load(options, sys::AW_LINK_ETHERNET).unwrap_or_else(|e| panic!("{e}"))
}

fn options(position: Position) -> Options {
    let mut options = Options::new("lo", "adaptive".parse().expect("a policy"));
    options.position = position;
    options.selftest = true;
    options
}

/// Runs an ACK through the programs, and returns what its flow then knows about the link.
fn shared_after(programs: &mut Scripted, now: u64, ack: u32) -> u32 {
    flow_after(programs, now, ack).shared
}

fn flow_after(programs: &mut Scripted, now: u64, ack: u32) -> sys::aw_flow {
    programs.set_time(now).unwrap();
    let frame = Seg::ack(ack).frame();
    programs.run(true, &frame, Context::default()).unwrap();
    let entries = programs.entries().unwrap();
    assert_eq!(entries.len(), 1, "one flow");
    entries[0].flow
}

/// A frozen daemon writes nothing more, and what it wrote last expires with its heartbeat.
#[test]
fn what_was_said_last_ends_by_itself() {
    let _alone = alone();
    let mut programs = load(&options(Position::Receiver));
    assert_eq!(shared_after(&mut programs, SECOND, 1000), 0);
    programs.set_shared(24_000, 3 * SECOND).unwrap();
    assert_eq!(shared_after(&mut programs, 2 * SECOND, 2000), 24_000);
    assert_eq!(shared_after(&mut programs, 4 * SECOND, 3000), 0);
    programs.set_shared(0, 6 * SECOND).unwrap();
    assert_eq!(shared_after(&mut programs, 5 * SECOND, 4000), 0);
}

#[test]
fn nobody_is_told_at_a_sender_or_before_a_fair_queue() {
    let _alone = alone();
    let mut fair = options(Position::Receiver);
    fair.fair_queue = true;
    for options in [options(Position::Sender), fair] {
        let mut programs = load(&options);
        programs.set_shared(24_000, 3 * SECOND).unwrap();
        assert_eq!(shared_after(&mut programs, SECOND, 1000), 0);
    }
}

/// Runs the calling thread on this CPU.
fn run_on(cpu: usize) {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
}

/// A flow is told about the CPU that handles it and about no other; if the policy does not use
/// this, about none.
#[test]
fn a_flow_is_told_whether_its_own_cpu_is_busy() {
    let _alone = alone();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let fair = Options {
        fair_queue: true,
        ..options(Position::Receiver)
    };
    let mut unasked = options(Position::Receiver);
    unasked.policy = "every-n".parse().unwrap();
    let cases = [
        (options(Position::Receiver), 1),
        (options(Position::Sender), 1),
        (fair, 1),
        (unasked, 0),
    ];
    for (options, expected) in cases {
        let mut programs = load(&options);
        let mut ack = 0;
        for cpu in 0..cpus {
            run_on(cpu);
            let mut own = [0; sys::AW_BUSY_CPUS as usize];
            own[cpu / 32] = 1 << (cpu % 32);
            for (busy_cpus, expected) in [(own, expected), (own.map(|word| !word), 0)] {
                programs.set_busy(busy_cpus).unwrap();
                ack += 1000;
                let flow = flow_after(&mut programs, SECOND + u64::from(ack), ack);
                assert_eq!(
                    flow.busy, expected,
                    "{options:?}, CPU {cpu}, {busy_cpus:x?}"
                );
            }
        }
    }
}

/// Outgoing full packets and those that are not TCP are one count, ACKs and short packets of TCP
/// another, whatever flow they belong to; packets that are not ACKs are also counted in the
/// statistics.
#[test]
fn what_leaves_is_counted_to_the_byte() {
    let _alone = alone();
    let mut programs = load(&options(Position::Receiver));
    let cpus = std::thread::available_parallelism().unwrap().get();
    let mut left = |frame: &[u8]| {
        programs.run(true, frame, Context::default()).unwrap();
        (0..cpus).fold((0, 0, 0), |sum, cpu| {
            let one = programs.percpu(cpu).unwrap();
            (
                sum.0 + one.left_rest_bytes,
                sum.1 + one.counters.other_bytes,
                sum.2 + one.left_others_bytes,
            )
        })
    };
    let ack = Seg::ack(1000).frame();
    let mut rest = ack.len() as u64;
    assert_eq!(left(&ack), (rest, 0, 0));
    let data = |payload| Seg {
        payload,
        ..Seg::ack(1000)
    };
    let header = data(500).frame().len() - 500;
    let full_len = UPLINK_FULL_BYTES as usize;
    let mut others = 0;
    for (payload, full) in [
        (500, 0),
        (full_len - 1 - header, 0),
        (full_len - header, u64::from(UPLINK_FULL_BYTES)),
    ] {
        let data = data(payload).frame();
        others += data.len() as u64;
        rest += if full > 0 { 0 } else { data.len() as u64 };
        assert_eq!(left(&data), (rest, others, full), "{payload} bytes");
    }
    // UDP, ESP and ICMP.
    let mut counted = u64::from(UPLINK_FULL_BYTES);
    for protocol in [17, 50, 1] {
        let mut datagram = ack.clone();
        datagram[14 + 9] = protocol;
        let len = datagram.len() as u64;
        others += len;
        counted += len;
        let expected = (rest, others, counted);
        assert_eq!(left(&datagram), expected, "protocol {protocol}");
    }
}

/// The class for ACKs, and its queue: as a number and as `tc` writes it.
const ACK_CLASS: (u32, &str) = (1 << 16 | 3, "1:3");

/// The packets that the class for ACKs has had.
fn in_ack_class() -> u64 {
    let text = output(
        "tc",
        &format!("-s class show dev aw0 classid {}", ACK_CLASS.1),
    );
    let mut words = text.split_whitespace().skip_while(|word| *word != "bytes");
    let packets = words.nth(1).and_then(|packets| packets.parse().ok());
    packets.unwrap_or_else(|| panic!("no packets in {text}"))
}

/// Sends segments and their ACKs, each after a full packet of another flow if `beside_upload`,
/// until the last ACK was in the class for ACKs, or was not.
fn send_until(in_class: bool, beside_upload: bool, wires: (&Wire, &Wire), flow: &mut Flow) {
    let upload = Seg {
        port: 10_001,
        payload: 1400,
        ..Seg::ack(0)
    };
    eventually(&format!("in the class for ACKs: {in_class}"), || {
        std::thread::sleep(ms(10));
        if beside_upload {
            wires.0.send(&upload.frame());
        }
        let before = in_ack_class();
        flow.step(wires.0, wires.1);
        (in_ack_class() > before) == in_class
    });
}

/// A policy that a guard has paused may stay so for days, so the class of ACKs must not stay as it
/// was. HTB, like cake, takes a priority with its own handle as the number of a class.
#[test]
fn the_class_of_acks_follows_the_upload_also_while_the_policy_is_paused() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        tc("qdisc add dev aw0 root handle 1: htb default 2");
        for class in ["1:2", ACK_CLASS.1] {
            tc(&format!(
                "class add dev aw0 parent 1: classid {class} htb rate 1gbit quantum 60000"
            ));
        }
        let mut options = Options::new("aw0", "every-n".parse().expect("a policy"));
        options.attach = AttachMode::Tcx;
        options.ack_priority = ACK_CLASS.0;
        let datapath = attach(options);
        let mut flow = Flow::start(near, far, Seg::ack(0));
        for paused in [false, true, false] {
            datapath.pause(paused).unwrap_or_else(|e| panic!("{e}"));
            send_until(true, true, (near, far), &mut flow);
            send_until(false, false, (near, far), &mut flow);
        }
    });
}
