//! Which errors on live packets are bad input, or like it: trying again cannot help.

use std::error::Error;

/// Returns whether an error of the datapath, the gateway or the tunnel means bad input, or a kernel
/// that cannot do what is asked. A service manager does not try again then.
pub fn is_bad_input(error: &(dyn Error + 'static)) -> bool {
    use ackwise_datapath::Error as Datapath;

    if let Some(e) = error.downcast_ref::<ackwise_netdev::Error>() {
        return is_bad_name(e);
    }
    if let Some(e) = error.downcast_ref::<Datapath>() {
        return matches!(
            e,
            Datapath::Capability { .. }
                | Datapath::Option { .. }
                | Datapath::Cgroup { .. }
                | Datapath::Kernel { .. }
                | Datapath::Unfit {
                    is_certain: true,
                    ..
                }
                | Datapath::PreemptRt { .. }
        ) || matches!(e, Datapath::Netdev(error) if is_bad_name(error));
    }
    if let Some(e) = error.downcast_ref::<ackwise_gateway::Error>() {
        use ackwise_gateway::Error as Gateway;
        return matches!(e, Gateway::Netdev(error) if is_bad_name(error));
    }
    if let Some(e) = error.downcast_ref::<ackwise_tunneld::Error>() {
        use ackwise_tunneld::Error as Tunnel;
        return matches!(
            e,
            Tunnel::Key { .. } | Tunnel::KeyPermissions(_) | Tunnel::OwnKey(_)
        ) || matches!(e, Tunnel::Netdev(error) if is_bad_name(error) && !is_absent(error));
    }
    false
}

/// Returns whether the error is about a given interface or user that cannot be used.
fn is_bad_name(error: &ackwise_netdev::Error) -> bool {
    use ackwise_netdev::Error;

    matches!(
        error,
        Error::NoInterface(_)
            | Error::LinkType { .. }
            | Error::Ifb(_)
            | Error::IngressQdisc(_)
            | Error::NoUser(_)
            | Error::NotRoot { .. }
    )
}

/// Returns whether an interface is missing. A tunnel's interface is named in its file, which may be
/// right: the interface may appear later.
fn is_absent(error: &ackwise_netdev::Error) -> bool {
    matches!(error, ackwise_netdev::Error::NoInterface(_))
}

#[cfg(test)]
mod tests {
    use crate::error::{EXIT_BAD_INPUT, EXIT_FAILED, exit_code};

    #[test]
    fn l11_a_key_file_that_others_may_read_is_bad_input() {
        let error = ackwise_tunneld::Error::KeyPermissions("tunnel.key".into());
        assert!(error.to_string().contains("`chmod 600 tunnel.key`"));
        assert_eq!(exit_code(&error.into(), |_| false), EXIT_BAD_INPUT);
    }

    /// The units of `up` would start again every two seconds for ever.
    #[test]
    fn a_kernel_that_lacks_something_will_not_get_it() {
        let release = || "5.10.0".to_owned();
        let unfit = |is_certain| ackwise_datapath::Error::Unfit {
            release: release(),
            why: "interprets BPF programs",
            is_certain,
        };
        for error in [
            ackwise_datapath::Error::Kernel {
                release: release(),
                what: "the BPF helper bpf_loop()",
            },
            unfit(true),
            ackwise_datapath::Error::PreemptRt { release: release() },
        ] {
            assert_eq!(exit_code(&error.into(), |_| false), EXIT_BAD_INPUT);
        }
        // Somebody may turn on a JIT that cannot be seen.
        assert_eq!(exit_code(&unfit(false).into(), |_| false), EXIT_FAILED);
        let gone = ackwise_datapath::Error::InterfaceGone("wan0".to_owned());
        assert_eq!(exit_code(&gone.into(), |_| false), EXIT_FAILED);
    }

    /// The tunnel's unit tries again, since an interface may appear late.
    #[test]
    fn an_interface_of_a_tunnel_that_is_not_there_is_no_bad_input() {
        let absent = || ackwise_netdev::Error::NoInterface("wan0".to_owned());
        let error = ackwise_tunneld::Error::from(absent());
        assert_eq!(exit_code(&error.into(), |_| false), EXIT_FAILED);
        let error = ackwise_gateway::Error::from(absent());
        assert_eq!(exit_code(&error.into(), |_| false), EXIT_BAD_INPUT);
    }
}
