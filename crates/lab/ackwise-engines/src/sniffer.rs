//! Counts frames on a veth pair, where no emulator sees them.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_netdev::sockopt::{self, attach_filter, instruction, set_int};

use crate::clock::now_ns;
use crate::count::WireCounter;
use crate::error::LabError;
use crate::frame;
use crate::netns::Entrance;
use crate::pcap::Pcap;

/// Bytes kept of a frame: enough for every header and option.
const SNAP: usize = 160;
/// Frames received per system call.
const BATCH: usize = 64;
/// Buffer for frames that wait to be counted.
const BUFFER_BYTES: libc::c_int = 64 << 20;

/// A packet socket on an interface, with a thread that counts.
#[derive(Debug)]
pub struct Sniffer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<SnifferReport>>,
}

/// The results of a sniffer.
#[derive(Debug)]
pub struct SnifferReport {
    /// Counts of what crossed.
    pub counter: WireCounter,
    /// Frames that the sniffer missed; the counts are too low by these.
    pub missed: u32,
    /// Errors during the run.
    pub errors: Vec<String>,
}

impl Sniffer {
    /// Starts to count the frames on an interface of a namespace.
    ///
    /// # Errors
    /// There is no such interface, or the caller lacks the permission.
    pub fn start(
        entrance: Entrance,
        interface: &str,
        counter: WireCounter,
        capture: Option<Pcap>,
    ) -> Result<Self, LabError> {
        let name = interface.to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, opened) = std::sync::mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("sniff {name}"))
            .spawn(move || {
                let socket = match entrance.enter().and_then(|()| open(&name)) {
                    Ok(socket) => socket,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return SnifferReport {
                            counter,
                            missed: 0,
                            errors: Vec::new(),
                        };
                    }
                };
                let _ = ready.send(Ok(()));
                count(&socket, counter, capture, &stopped)
            })
            .map_err(LabError::os("cannot start the sniffer's thread"))?;
        let sniffer = Self {
            stop,
            thread: Some(thread),
        };
        opened
            .recv()
            .map_err(|_| LabError::Panicked("the sniffer"))??;
        Ok(sniffer)
    }

    /// Ends the sniffer and returns its results.
    ///
    /// # Errors
    /// Its thread panicked.
    pub fn finish(mut self) -> Result<SnifferReport, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(report)) => Ok(report),
            _ => Err(LabError::Panicked("the sniffer")),
        }
    }
}

impl Drop for Sniffer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already, and this must not add another.
            let _ = thread.join();
        }
    }
}

fn open(interface: &str) -> Result<OwnedFd, LabError> {
    let index = nix::net::if_::if_nametoindex(interface).map_err(LabError::errno(format!(
        "there is no interface {interface}"
    )))?;
    let refused = || LabError::os("cannot set an option of a packet socket");
    let socket =
        packet_socket::open(Layer::Link).map_err(LabError::os("cannot open a packet socket"))?;
    // "Accept the first SNAP bytes": the only instruction.
    let cut = [instruction(libc::BPF_RET | libc::BPF_K, 0, 0, SNAP as u32)];
    attach_filter(&socket, &cut).map_err(refused())?;
    set_int(
        &socket,
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        BUFFER_BYTES,
    )
    .map_err(refused())?;
    let timeout = libc::timeval {
        tv_sec: 0,
        tv_usec: 20_000,
    };
    sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout).map_err(refused())?;
    set_int(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1).map_err(refused())?;
    packet_socket::bind(&socket, Some(index), Receives::All)
        .map_err(LabError::os("cannot bind a packet socket"))?;
    Ok(socket)
}

/// Buffers for one frame.
struct Cell {
    bytes: [u8; SNAP],
    control: [u64; 8],
    vector: libc::iovec,
}

fn count(
    socket: &OwnedFd,
    mut counter: WireCounter,
    mut capture: Option<Pcap>,
    stop: &AtomicBool,
) -> SnifferReport {
    let mut errors = Vec::new();
    let mut cells: Vec<Cell> = (0..BATCH)
        .map(|_| Cell {
            bytes: [0; SNAP],
            control: [0; 8],
            // SAFETY: all zeroes is a valid value.
            vector: unsafe { zeroed() },
        })
        .collect();
    // SAFETY: all zeroes is a valid `mmsghdr`.
    let mut messages: Vec<libc::mmsghdr> = (0..BATCH).map(|_| unsafe { zeroed() }).collect();
    // The cells don't move from here on.
    for (message, cell) in messages.iter_mut().zip(cells.iter_mut()) {
        cell.vector.iov_base = cell.bytes.as_mut_ptr().cast();
        cell.vector.iov_len = SNAP;
        message.msg_hdr.msg_iov = &raw mut cell.vector;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = cell.control.as_mut_ptr().cast();
    }
    loop {
        // Frames sent before the stop request are still counted.
        let last = stop.load(Ordering::Relaxed);
        for message in &mut messages {
            message.msg_hdr.msg_controllen = size_of::<[u64; 8]>() as _;
        }
        // SAFETY: every pointer in `messages` is to a live cell that nothing
        // else reads during the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_WAITFORONE as _,
                std::ptr::null_mut(),
            )
        };
        let now = now_ns();
        if received < 0 {
            let error = io::Error::last_os_error();
            let retry = matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            );
            if !retry && error.raw_os_error() != Some(libc::ENETDOWN) {
                errors.push(format!("the sniffer ended early: {error}"));
                break;
            }
            if last {
                break;
            }
            continue;
        }
        for (message, cell) in messages.iter().zip(&cells).take(received as usize) {
            let kept = (message.msg_len as usize).min(SNAP);
            let wire_len = original_length(&message.msg_hdr).unwrap_or(kept);
            let bytes = &cell.bytes[..kept];
            if let Some(segment) = frame::parse(bytes, wire_len)
                && let Some(mark) = counter.entered(&segment, wire_len as u32, true, now)
            {
                counter.arrived(mark, 1, now);
            }
            if let Some(file) = &mut capture
                && let Err(error) = file.write(bytes, wire_len, now)
            {
                errors.push(format!("a capture ended early: {error}"));
                capture = None;
            }
        }
        if last && (received as usize) < BATCH {
            break;
        }
    }
    if let Some(Err(error)) = capture.map(Pcap::finish) {
        errors.push(format!("a capture is incomplete: {error}"));
    }
    SnifferReport {
        counter,
        missed: packet_socket::missed(socket),
        errors,
    }
}

/// The length of a frame before truncation.
fn original_length(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel has filled in the control buffer and its length; the
    // macros stay within it, and the data may lie unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_PACKET
                && (*control).cmsg_type == libc::PACKET_AUXDATA
            {
                let data = libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>();
                return Some(data.read_unaligned().tp_len as usize);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}
