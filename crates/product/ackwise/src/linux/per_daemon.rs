//! Applies an operation to several daemons. A failure on one hides no other, and does not stop the
//! rest.

use ackwise_cli::error::in_line;
use anyhow::anyhow;

/// The outcome of an operation on each daemon.
pub struct PerDaemon<T> {
    /// The results of the daemons on which it succeeded.
    pub done: Vec<T>,
    /// The names of the daemons on which it failed, and the errors.
    failed: Vec<(String, anyhow::Error)>,
}

impl<T> PerDaemon<T> {
    /// Applies an operation to each. `None` leaves an item out: it has ended meanwhile.
    pub fn of<I>(
        items: impl IntoIterator<Item = I>,
        name: impl Fn(&I) -> &str,
        work: impl Fn(&I) -> anyhow::Result<Option<T>>,
    ) -> Self {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for item in items {
            match work(&item) {
                Ok(result) => done.extend(result),
                Err(error) => failed.push((name(&item).to_owned(), error)),
            }
        }
        Self { done, failed }
    }

    /// The result for one daemon that was named, which did not fail.
    pub fn only(done: T) -> Self {
        Self {
            done: vec![done],
            failed: Vec::new(),
        }
    }

    /// Whether there was no daemon.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.failed.is_empty()
    }

    /// Reports what failed, once the results are shown.
    pub fn finish(mut self) -> anyhow::Result<()> {
        match self.failed.len() {
            0 => Ok(()),
            1 => Err(self.failed.remove(0).1),
            _ => {
                let failed = self.failed.iter();
                let message = failed.map(|(name, error)| format!("{name}: {}", in_line(error)));
                Err(anyhow!(message.collect::<Vec<_>>().join("\n")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_keeps_nothing_from_the_others() {
        let of = |names: &[&'static str]| {
            let work = |name: &&str| match *name {
                "stuck" | "deaf" => Err(anyhow!("process 1 does not answer")),
                "gone" => Ok(None),
                name => Ok(Some(name.len())),
            };
            PerDaemon::of(names.iter().copied(), |name| name, work)
        };
        let all = of(&["stuck", "a", "gone", "deaf", "abc"]);
        assert_eq!(all.done, [1, 3]);
        assert!(!all.is_empty());
        let message = all.finish().unwrap_err().to_string();
        let expected = ["stuck", "deaf"].map(|name| format!("{name}: process 1 does not answer"));
        assert_eq!(message, expected.join("\n"));
        let message = of(&["a", "deaf"]).finish().unwrap_err().to_string();
        assert_eq!(message, "process 1 does not answer");
        let none = of(&["gone"]);
        assert!(none.is_empty());
        none.finish().unwrap();
    }
}
