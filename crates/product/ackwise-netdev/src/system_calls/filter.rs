//! The system calls of each kind of process, and the filter that is compiled from them.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

use super::{PrivilegedOps, Rule, Rules};
use crate::Error;
use crate::janitor::READY;
use crate::tun::TUNSETCARRIER;

/// Calls permitted with any arguments: memory, time, signals, threads, and operations on open
/// descriptors.
const UNCONDITIONAL: &[c_long] = &[
    // musl's accept4() falls back to the older call when the socket no longer listens.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpeername,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setpriority,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_wait4,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[c_long] = &[];

/// The families of sockets that may be opened after the start: for the service manager, name
/// resolution and questions about interfaces. No packet socket can be opened.
const SOCKET_FAMILIES: [libc::c_int; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Queries of a terminal, a descriptor and an interface; and the carrier of a TUN device, which its
/// owner may set.
const IOCTLS: [u32; 11] = [
    libc::TCGETS as u32,
    libc::TIOCGWINSZ as u32,
    libc::FIONBIO as u32,
    libc::FIONREAD as u32,
    libc::FIOCLEX as u32,
    libc::SIOCGIFFLAGS as u32,
    libc::SIOCGIFHWADDR as u32,
    libc::SIOCGIFINDEX as u32,
    libc::SIOCGIFMTU as u32,
    libc::SIOCGIFNAME as u32,
    TUNSETCARRIER as u32,
];

/// Attributes of the process: the names of threads and of their memory, and the slack of timers.
const PRCTLS: [u32; 4] = [
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_SET_TIMERSLACK as u32,
    0x5356_4d41, // PR_SET_VMA
];

/// `enum bpf_cmd`: operations on a map with an open descriptor.
const MAP_COMMANDS: [u32; 5] = [
    1,  // BPF_MAP_LOOKUP_ELEM
    2,  // BPF_MAP_UPDATE_ELEM
    3,  // BPF_MAP_DELETE_ELEM
    4,  // BPF_MAP_GET_NEXT_KEY
    15, // BPF_OBJ_GET_INFO_BY_FD
];
/// `enum bpf_cmd`: BPF_PROG_TEST_RUN.
const RUN_COMMAND: u32 = 10;
/// `enum bpf_cmd`: BPF_LINK_UPDATE.
const REPLACE_COMMAND: u32 = 29;
/// `enum bpf_cmd`: the commands that load a program with its own constants: BPF_MAP_CREATE,
/// BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD, BPF_OBJ_GET_INFO_BY_FD and BPF_MAP_FREEZE.
const LOAD_COMMANDS: [u32; 5] = [0, 2, 5, 15, 22];

/// Returns the calls of a daemon that is set up.
#[must_use]
pub fn of_daemon(ops: &PrivilegedOps) -> Rules {
    let mut rules = Rules::new();
    let mut permit = |call: c_long, how: Vec<Rule>| rules.insert(call, how);
    for call in UNCONDITIONAL.iter().chain(LEGACY) {
        permit(*call, vec![Rule::Any]);
    }
    let none_of = |argument, bits: libc::c_int| Rule::Bits {
        argument,
        mask: bits as u32,
        value: 0,
    };
    let one_of =
        |argument, values: &[u32]| values.iter().map(move |v| Rule::Is(argument, *v)).collect();
    // Nothing is opened for writing or created.
    let writing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    permit(libc::SYS_openat, vec![none_of(2, writing)]);
    #[cfg(target_arch = "x86_64")]
    permit(libc::SYS_open, vec![none_of(1, writing)]);
    // No memory is both writable and executable, and none becomes executable.
    let (write, execute) = (libc::PROT_WRITE, libc::PROT_EXEC);
    permit(libc::SYS_mmap, vec![none_of(2, write), none_of(2, execute)]);
    permit(libc::SYS_mprotect, vec![none_of(2, execute)]);
    // Threads, but no processes. A filter cannot see the flags of clone3.
    let thread = libc::CLONE_THREAD as u32;
    permit(
        libc::SYS_clone,
        vec![Rule::Bits {
            argument: 0,
            mask: thread,
            value: thread,
        }],
    );
    permit(libc::SYS_clone3, vec![Rule::NotThere]);
    // Limits are read and not set. Signals go only to this process, as for abort(3).
    permit(libc::SYS_prlimit64, vec![Rule::Is(2, 0)]);
    permit(libc::SYS_tgkill, vec![Rule::Is(0, std::process::id())]);
    permit(libc::SYS_ioctl, one_of(1, &IOCTLS));
    permit(libc::SYS_prctl, one_of(0, &PRCTLS));
    permit(
        libc::SYS_socket,
        one_of(0, &SOCKET_FAMILIES.map(|f| f as u32)),
    );
    let commands = MAP_COMMANDS.iter().copied().filter(|_| ops.maps);
    let commands = commands.chain(ops.runs.then_some(RUN_COMMAND));
    let commands = commands.chain(ops.replaces.then_some(REPLACE_COMMAND));
    let commands: Vec<_> = commands.collect();
    if !commands.is_empty() {
        permit(libc::SYS_bpf, one_of(0, &commands));
    }
    rules
}

/// Returns the calls of a process that waits on a pipe and then removes files.
#[must_use]
pub(crate) fn of_janitor() -> Rules {
    let calls = [
        libc::SYS_read,
        libc::SYS_unlinkat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigreturn,
        libc::SYS_exit_group,
    ];
    let mut rules = Rules::from(calls.map(|call| (call, vec![Rule::Any])));
    // The process reports once that it is ready.
    rules.insert(libc::SYS_write, vec![Rule::Is(0, READY as u32)]);
    rules
}

/// Returns the calls of a janitor that first restores a queue discipline: rtnetlink over an open
/// socket, and memory for the messages.
#[must_use]
pub(crate) fn of_guard() -> Rules {
    let mut rules = of_janitor();
    let calls = [
        libc::SYS_brk,
        libc::SYS_futex,
        libc::SYS_madvise,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_recvfrom,
        libc::SYS_sendto,
    ];
    rules.extend(calls.map(|call| (call, vec![Rule::Any])));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let execute = Rule::Bits {
            argument: 2,
            mask: libc::PROT_EXEC as u32,
            value: 0,
        };
        rules.insert(call, vec![execute]);
    }
    rules
}

/// Returns the calls of a process that loads programs, and passes them on over an open socket.
#[must_use]
pub(crate) fn of_loader() -> Rules {
    let calls = [
        libc::SYS_brk,
        libc::SYS_clock_gettime,
        libc::SYS_close,
        libc::SYS_dup3,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_dup2,
        libc::SYS_exit_group,
        libc::SYS_fcntl,
        libc::SYS_futex,
        libc::SYS_getrandom,
        libc::SYS_madvise,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_newfstatat,
        libc::SYS_read,
        libc::SYS_recvmsg,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sendmsg,
        libc::SYS_statx,
        libc::SYS_uname,
        libc::SYS_write,
    ];
    let mut rules: Rules = calls.map(|call| (call, vec![Rule::Any])).into();
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let execute = Rule::Bits {
            argument: 2,
            mask: libc::PROT_EXEC as u32,
            value: 0,
        };
        rules.insert(call, vec![execute]);
    }
    // The kernel's version is read from /proc.
    let reading = |argument| Rule::Bits {
        argument,
        mask: (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u32,
        value: 0,
    };
    rules.insert(libc::SYS_openat, vec![reading(2)]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![reading(1)]);
    let commands = LOAD_COMMANDS.map(|command| Rule::Is(0, command));
    rules.insert(libc::SYS_bpf, commands.into());
    rules
}

/// Restricts this thread, and those that it starts later, to these calls.
///
/// # Errors
/// If the kernel has no seccomp, or refuses.
pub fn restrict(rules: &Rules) -> Result<(), Error> {
    const WHAT: &str = "restrict its system calls (seccomp)";
    let refused = match std::env::var_os("ACKWISE_SECCOMP") {
        Some(value) if value == "log" => SeccompAction::Log,
        _ => SeccompAction::KillProcess,
    };
    let failed = |error: &dyn std::fmt::Display| Error::privileges(WHAT, error);
    let is_there = |rule: &&Rule| **rule != Rule::NotThere;
    // With two filters the stricter action applies: one permits or kills, the other returns ENOSYS.
    let permitted = rules.iter().map(|(call, how)| {
        let how = how.iter().filter(is_there);
        how.filter_map(|rule| condition(rule).transpose())
            .collect::<Result<Vec<_>, _>>()
            .map(|how| (*call, how))
    });
    let permitted = permitted
        .collect::<Result<BTreeMap<_, _>, _>>()
        .map_err(|error| failed(&error))?;
    let not_there = rules
        .iter()
        .filter(|(_, how)| how.contains(&Rule::NotThere))
        .map(|(call, _)| (*call, Vec::new()))
        .collect();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    for (rules, otherwise, matched) in [
        (not_there, SeccompAction::Allow, missing),
        (permitted, refused, SeccompAction::Allow),
    ] {
        let program = compile(rules, otherwise, matched).map_err(|error| failed(&error))?;
        // Installing the second filter needs no call that the first one refuses.
        if let Some(program) = program {
            apply_filter(&program).map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

/// Compiles a filter; `None` if there are no rules.
fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<Option<BpfProgram>, BackendError> {
    if rules.is_empty() {
        return Ok(None);
    }
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, otherwise, matched, arch)?;
    filter.try_into().map(Some)
}

/// Returns the condition of a rule; `None` permits the call with any arguments.
fn condition(rule: &Rule) -> Result<Option<SeccompRule>, BackendError> {
    let (argument, how, value) = match *rule {
        Rule::Any | Rule::NotThere => return Ok(None),
        Rule::Is(argument, value) => (argument, SeccompCmpOp::Eq, value),
        Rule::Bits {
            argument,
            mask,
            value,
        } => (argument, SeccompCmpOp::MaskedEq(mask.into()), value),
    };
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value.into())?;
    SeccompRule::new(vec![condition]).map(Some)
}
