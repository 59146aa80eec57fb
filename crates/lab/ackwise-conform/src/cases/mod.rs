//! The cases of the suite, by subject.

mod accecn;
mod answers;
mod duplicates;
mod ecn;
mod flags;
mod numbers;
mod options;
mod sack;
mod timestamps;
mod window;

use crate::case::Case;
use crate::device::Error;

/// Every case, in the order of reports.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        numbers::CASES,
        duplicates::CASES,
        sack::CASES,
        ecn::CASES,
        accecn::CASES,
        window::CASES,
        timestamps::CASES,
        flags::CASES,
        answers::CASES,
        options::CASES,
    ]
    .concat()
}

/// The cases with these names; all cases if `names` is empty.
///
/// # Errors
/// There is no case with one of the names.
pub fn chosen(names: &[String]) -> Result<Vec<Case>, Error> {
    let all = cases();
    for name in names {
        if all.iter().all(|case| case.name != name) {
            return Err(Error::NoSuchCase(name.clone()));
        }
    }
    let wanted = |case: &Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Variant;
    use crate::packet::Flow;

    const VARIANT: Variant = Variant {
        flow: Flow {
            v6: false,
            host: 1,
            port: 10_000,
            peer_port: 443,
        },
        phase: 0,
    };

    #[test]
    fn each_case_has_a_name_of_its_own_a_source_and_something_to_expect() {
        let cases = cases();
        for (index, case) in cases.iter().enumerate() {
            assert!(
                cases[..index].iter().all(|it| it.name != case.name),
                "{}",
                case.name
            );
            assert!(case.rfc.starts_with("RFC "), "{}: {}", case.name, case.rfc);
            let script = (case.script)(VARIANT);
            assert!(!script.expects.is_empty(), "{}", case.name);
        }
    }

    #[test]
    fn steps_are_in_the_order_of_time_and_within_ports_of_the_run() {
        for case in cases() {
            let script = (case.script)(VARIANT);
            assert!(
                script.steps.is_sorted_by_key(|step| step.at_ns),
                "{}",
                case.name
            );
            for step in &script.steps {
                assert!(
                    (10_000..10_004).contains(&step.segment.flow.port),
                    "{}",
                    case.name
                );
            }
        }
    }

    #[test]
    fn a_name_that_is_not_there_is_refused() {
        assert!(chosen(&["no-such-case".to_owned()]).is_err());
        assert_eq!(chosen(&["last-ack".to_owned()]).unwrap().len(), 1);
    }
}
