//! Runs `iperf3` as an independent traffic source.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ackwise_scenario::App;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::socket::Limits;
use super::{Behaviour, Job, Outcome};
use crate::clock::{nanos, now_ns};
use crate::error::LabError;
use crate::netns::Entrance;

/// How long a server may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A running `iperf3`, killed on drop.
struct Process {
    child: Child,
    output: File,
    ended: Option<Ended>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    status: i32,
    cpu_ns: u64,
    /// The reason why status and CPU time are unknown.
    unknown: Option<Errno>,
}

impl Process {
    fn start(entrance: &Entrance, args: &[String]) -> Result<Self, LabError> {
        let output = memfd_create("iperf3", MFdFlags::MFD_CLOEXEC)
            .map(File::from)
            .map_err(LabError::errno("cannot make a file in memory"))?;
        let stdout = output
            .try_clone()
            .map_err(LabError::os("cannot duplicate a descriptor"))?;
        // The calling thread lives as long as the process should.
        entrance.enter()?;
        let mut command = Command::new("iperf3");
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::null());
        // SAFETY: prctl is async-signal-safe and takes no pointers.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
                Ok(())
            });
        }
        let child = command
            .spawn()
            .map_err(LabError::os("cannot start `iperf3`"))?;
        Ok(Self {
            child,
            output,
            ended: None,
        })
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Reaps the process if it has ended.
    fn poll(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            let mut status = 0;
            // SAFETY: all zeroes is a valid `rusage`.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: the pointers are live; the child is ours and not yet reaped, so its PID is
            // not reused.
            let answer = unsafe {
                libc::wait4(
                    self.pid().as_raw(),
                    &raw mut status,
                    libc::WNOHANG,
                    &raw mut usage,
                )
            };
            if answer != 0 {
                let time =
                    |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
                self.ended = Some(Ended {
                    status,
                    cpu_ns: time(usage.ru_utime) + time(usage.ru_stime),
                    unknown: (answer < 0).then(Errno::last),
                });
            }
        }
        self.ended
    }

    /// Waits for the process to end; kills it when the limits are over.
    fn wait(&mut self, limits: &Limits) -> Ended {
        loop {
            if let Some(ended) = self.poll() {
                return ended;
            }
            if limits.over() {
                self.kill();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&self) {
        if self.ended.is_none() {
            // The process may just have ended by itself.
            let _ = kill(self.pid(), Signal::SIGKILL);
        }
    }

    fn report(&mut self) -> Result<Value, String> {
        let mut text = String::new();
        self.output
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.output.read_to_string(&mut text))
            .map_err(|error| format!("cannot read iperf3's output: {error}"))?;
        let report: Value = serde_json::from_str(&text)
            .map_err(|error| format!("iperf3's output is not JSON ({error})"))?;
        match report.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("iperf3: {error}")),
            None => Ok(report),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        while self.poll().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether a socket listens on a port in the calling thread's namespace.
fn listens(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|family| {
        fs::read_to_string(format!("/proc/thread-self/net/{family}")).is_ok_and(|table| {
            table.lines().any(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let local = fields.next().is_some_and(|local| local.ends_with(&wanted));
                local && fields.nth(1) == Some("0A")
            })
        })
    })
}

/// Runs the flow.
pub(super) fn run(job: &Job, bytes: Option<u64>, limits: &Limits) -> Outcome {
    debug_assert!(matches!(job.app, App::Iperf3 { .. }));
    thread::scope(|scope| {
        let worker = scope.spawn(|| both(job, bytes, limits));
        match worker.join() {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::failed(error),
            Err(_) => Outcome::failed("a worker panicked; this is a bug in ackwise"),
        }
    })
}

fn both(job: &Job, bytes: Option<u64>, limits: &Limits) -> Result<Outcome, String> {
    let text = |error: LabError| error.to_string();
    let (address, port) = (job.server.ip().to_string(), job.server.port().to_string());
    let server_args = ["-s", "-1", "-J", "-B", &address, "-p", &port].map(str::to_owned);
    let mut server = Process::start(&job.to, &server_args).map_err(text)?;
    let deadline = now_ns() + nanos(START_TIMEOUT);
    while !listens(job.server.port()) {
        if server.poll().is_some() || now_ns() > deadline || limits.over() {
            return Err("the iperf3 server did not start".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
    limits
        .sleep_until(job.start_ns)
        .map_err(|error| error.to_string())?;
    let mut args = ["-J", "-c", &address, "-p", &port, "-C", &job.cc]
        .map(str::to_owned)
        .to_vec();
    if job.connections > 1 {
        args.extend(["-P".to_owned(), job.connections.to_string()]);
    }
    if job.options.pacing {
        // It limits nothing, but makes the kernel pace.
        args.extend(["--fq-rate", "30G"].map(str::to_owned));
    }
    match bytes {
        Some(bytes) => args.extend(["-n".to_owned(), bytes.to_string()]),
        None => {
            let seconds = job
                .stop_ns
                .saturating_sub(now_ns())
                .div_ceil(1_000_000_000)
                .max(1);
            args.extend(["-t".to_owned(), seconds.to_string()]);
        }
    }
    let first_ns = now_ns();
    let mut client = Process::start(&job.from, &args).map_err(text)?;
    let killed_at = job.behaviour.iter().find_map(|behaviour| match behaviour {
        Behaviour::KillSender { after } => Some(job.start_ns + nanos(*after)),
        _ => None,
    });
    if let Some(at) = killed_at {
        while client.poll().is_none() && now_ns() < at && !limits.over() {
            thread::sleep(Duration::from_millis(5));
        }
        client.kill();
    }
    let client_end = client.wait(limits);
    // The server ends with its only client.
    let brief = Limits {
        deadline_ns: limits.deadline_ns.min(now_ns() + nanos(START_TIMEOUT)),
        ..limits.clone()
    };
    let server_end = server.wait(&brief);
    let mut outcome = Outcome {
        first_ns: Some(first_ns),
        cpu_from_ns: client_end.cpu_ns,
        cpu_to_ns: server_end.cpu_ns,
        ..Outcome::default()
    };
    for ended in [client_end, server_end] {
        if let Some(errno) = ended.unknown {
            let error = format!("how iperf3 ended is unknown, and so is its CPU time: {errno}");
            outcome.errors.push(error);
        }
    }
    let result = client.report();
    if let Ok(report) = &result {
        let received = &report["end"]["sum_received"];
        outcome.bytes = received["bytes"].as_u64().unwrap_or(0);
        let seconds = received["seconds"].as_f64().unwrap_or(0.0);
        outcome.last_ns = Some(first_ns + (seconds * 1e9) as u64);
    }
    if client_end.status != 0 || outcome.bytes == 0 {
        outcome.errors.push(match result {
            Err(error) => format!("{error} (status {:#x})", client_end.status),
            Ok(_) => format!("iperf3 failed (status {:#x})", client_end.status),
        });
    }
    Ok(outcome)
}
