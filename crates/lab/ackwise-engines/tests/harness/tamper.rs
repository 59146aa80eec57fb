//! Between a node's device and the link: observes and marks frames.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use ackwise_headers::checksum;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

/// Observations and changes.
#[derive(Debug, Default)]
pub struct Seen {
    /// ECT packets of the sender.
    pub ect: AtomicU64,
    /// Packets that were changed.
    pub marked: AtomicU64,
    /// TCP flags of the SYN (low 16 bits) and of the SYN-ACK (next 16).
    pub syn_flags: AtomicU64,
}

/// A function that modifies a frame; it is told whether the frame comes from the device.
pub type Touch = fn(&Seen, bool, &mut [u8]);

/// A pump between a device and the link, which ends on drop.
pub struct Tamper {
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tamper {
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }
}

impl Drop for Tamper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Puts a pump between a device and the link; the link uses the returned file.
pub fn interpose(device: &File, touch: Touch) -> (Tamper, File) {
    let mut outer = device.try_clone().expect("a descriptor");
    // Keeps frame boundaries, with a queue as deep as the send buffer.
    let (near, far) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
    )
    .expect("socketpair");
    for end in [&near, &far] {
        deepen(end);
    }
    let mut inner = File::from(near);
    let (seen, stop) = (Arc::<Seen>::default(), Arc::<AtomicBool>::default());
    let (noting, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
    let thread = std::thread::spawn(move || {
        let mut frame = vec![0; 70_000];
        while !stopped.load(Ordering::Relaxed) {
            while let Ok(len @ 1..) = outer.read(&mut frame) {
                touch(&noting, true, &mut frame[..len]);
                let _ = inner.write(&frame[..len]);
            }
            while let Ok(len @ 1..) = inner.read(&mut frame) {
                touch(&noting, false, &mut frame[..len]);
                let _ = outer.write(&frame[..len]);
            }
            let mut waiting = [
                PollFd::new(outer.as_fd(), PollFlags::POLLIN),
                PollFd::new(inner.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut waiting, PollTimeout::from(20_u8));
        }
    });
    let tamper = Tamper {
        seen,
        stop,
        thread: Some(thread),
    };
    (tamper, File::from(far))
}

fn deepen(end: &OwnedFd) {
    nix::sys::socket::setsockopt(end, nix::sys::socket::sockopt::SndBufForce, &(8 << 20))
        .expect("a send buffer");
}

/// The TCP flags of an IPv4 frame, nine bits as in RFC 9768.
fn tcp_flags(frame: &[u8]) -> Option<u16> {
    if frame.get(12..14)? != [8, 0] || *frame.get(23)? != 6 {
        return None;
    }
    let tcp = frame.get(14 + usize::from(frame[14] & 15) * 4..)?;
    Some(u16::from_be_bytes([*tcp.get(12)? & 1, *tcp.get(13)?]))
}

/// Marks every `every`th ECT packet of the sender with CE, and records what was negotiated.
fn mark(seen: &Seen, outgoing: bool, frame: &mut [u8], every: u64) {
    let Some(flags) = tcp_flags(frame) else {
        return;
    };
    if flags & 2 != 0 {
        let shift = if outgoing { 0 } else { 16 };
        seen.syn_flags
            .fetch_or(u64::from(flags) << shift, Ordering::Relaxed);
        return;
    }
    // ECT(0) or ECT(1), RFC 3168 §5.
    if !outgoing || !matches!(frame[15] & 3, 1 | 2) {
        return;
    }
    if seen.ect.fetch_add(1, Ordering::Relaxed) % every != every - 1 {
        return;
    }
    frame[15] |= 3;
    let end = 14 + usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let sum = checksum::of(&frame[14..end]);
    frame[24..26].copy_from_slice(&sum);
    seen.marked.fetch_add(1, Ordering::Relaxed);
}

/// Marks occasionally: one congestion signal in some round trips.
pub fn mark_some(seen: &Seen, outgoing: bool, frame: &mut [u8]) {
    mark(seen, outgoing, frame, 400);
}

/// Makes a SYN that asks for ECN ask for AccECN by setting the AE bit as well (RFC 9768 §3.1.1).
pub fn ask_for_accecn(seen: &Seen, outgoing: bool, frame: &mut [u8]) {
    let Some(flags) = tcp_flags(frame) else {
        return;
    };
    if !outgoing || flags & 0x12 != 2 {
        return;
    }
    let tcp = 14 + usize::from(frame[14] & 15) * 4;
    let word = |frame: &[u8], at: usize| [frame[at], frame[at + 1]];
    let before = word(frame, tcp + 12);
    frame[tcp + 12] |= 1;
    let sum = checksum::update(word(frame, tcp + 16), before, word(frame, tcp + 12));
    frame[tcp + 16..tcp + 18].copy_from_slice(&sum);
    seen.marked.fetch_add(1, Ordering::Relaxed);
}
