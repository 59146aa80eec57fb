//! A part of the runs of a scenario.

use std::fmt;
use std::str::FromStr;

/// One of several parts that together make up all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// The runs of this part: every `count`th of `runs`. The runs of an expensive point are
    /// adjacent, and are thus spread over the parts.
    pub fn of<T>(self, runs: Vec<T>) -> Vec<T> {
        let mut place = 0..self.count;
        let mine = |_: &T| {
            let at = place.next().unwrap_or_else(|| {
                place = 1..self.count;
                0
            });
            at + 1 == self.index
        };
        runs.into_iter().filter(mine).collect()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not a part such as 3/8, the third of eight; the first is 1/8, the \
                 last 8/8"
            )
        };
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (index, count) = (number(index)?, number(count)?);
        if index == 0 || index > count {
            return Err(wrong());
        }
        Ok(Self { index, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole_and_each_run_is_in_one() {
        for count in 1..=7 {
            let mut all: Vec<u32> = (1..=count)
                .flat_map(|index| {
                    let shard: Shard = format!("{index}/{count}").parse().unwrap();
                    shard.of((0..50).collect())
                })
                .collect();
            all.sort_unstable();
            assert_eq!(all, (0..50).collect::<Vec<_>>(), "{count}");
        }
        let second: Shard = "2/3".parse().unwrap();
        assert_eq!(second.of((0..8).collect()), [1, 4, 7]);
        assert_eq!(second.to_string(), "2/3");
    }

    #[test]
    fn what_is_no_part_is_told() {
        for text in ["", "3", "0/3", "4/3", "1/0", "a/b", "1/2/3", "-1/2"] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.contains("the third of eight"), "{error}");
        }
    }
}
