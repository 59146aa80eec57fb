//! The eBPF programs of `bpf/` as objects, and the types that they share with their
//! loaders.
//!
//! Each module is one object: its bytes in `OBJECT`, and the structs and constants of its header.
//! `build.rs` compiles the programs with clang. The bindings are committed (`scripts/bindings`
//! generates them), and the build compares their layout with the headers: see `README.md`.

mod bindings;

/// The bytes of an object compiled by `build.rs`, aligned as its reader requires.
macro_rules! object {
    ($name:literal) => {
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))
    };
}

macro_rules! pod {
    ($($t:ty),+ $(,)?) => {
        $(
            // SAFETY: a C struct of integers without references; every bit pattern is valid, and
            // the kernel copies it as a whole.
            unsafe impl aya::Pod for $t {}
        )+
    };
}

/// The datapath: withholds ACKs at an interface (`bpf/ackwise.bpf.c`).
pub mod datapath {
    pub use crate::bindings::datapath::*;

    /// The programs, compiled.
    pub static OBJECT: &[u8] = object!("ackwise");

    pod!(
        aw_options,
        aw_control,
        aw_key,
        aw_entry,
        aw_counters,
        aw_percpu
    );
}

/// The datapath with programs for tests and benchmarks (`bpf/selftest.bpf.c`). No released
/// binary contains it.
#[cfg(feature = "selftest")]
pub mod selftest {
    pub use crate::bindings::selftest::*;

    /// The programs, compiled.
    pub static OBJECT: &[u8] = object!("selftest");

    pod!(aw_selftest_options, aw_replay, aw_ack_box);
}

/// Redirects the packets that leave through an interface to the gateway (`bpf/gateway.bpf.c`).
pub mod gateway {
    pub use crate::bindings::gateway::*;

    /// The program, compiled.
    pub static OBJECT: &[u8] = object!("gateway");

    pod!(aw_gateway_options, aw_gateway_control, aw_gateway_counters);
}

/// Echoes congestion marks on ACKs to the data receiver (`bpf/echo.bpf.c`).
pub mod echo {
    pub use crate::bindings::echo::*;

    /// The programs, compiled.
    pub static OBJECT: &[u8] = object!("echo");

    pod!(aw_echo_options, aw_echo_counters);
}

/// Measures round trips behind an interface's queue (`bpf/delay.bpf.c`).
pub mod delay {
    pub use crate::bindings::delay::*;

    /// The program, compiled.
    pub static OBJECT: &[u8] = object!("delay");

    pod!(aw_delay_options, aw_delay_sent, aw_delay_sample);
}

/// Drops packets as the datapath does, to check whether the sender is told (`bpf/silence.bpf.c`).
pub mod silence {
    pub use crate::bindings::silence::*;

    /// The program, compiled.
    pub static OBJECT: &[u8] = object!("silence");

    pod!(aw_silence_options);
}

/// Redirects the ACKs that leave through an interface to the tunnel (`bpf/tunnel.bpf.c`).
pub mod tunnel {
    pub use crate::bindings::tunnel::*;

    /// The program, compiled.
    pub static OBJECT: &[u8] = object!("tunnel");

    pod!(aw_tunnel_options);
}

/// Asks for ACK rates on the sockets of a cgroup (`bpf/ack_rate.bpf.c`).
pub mod ack_rate {
    pub use crate::bindings::ack_rate::*;

    /// The program, compiled.
    pub static OBJECT: &[u8] = object!("ack_rate");

    pod!(aw_ack_rate_options, aw_ack_rate_counters);
}

/// Receives restored packets many at a time (`bpf/inject.bpf.c`).
pub mod inject {
    pub use crate::bindings::inject::*;

    /// The program, compiled.
    pub static OBJECT: &[u8] = object!("inject");
}
