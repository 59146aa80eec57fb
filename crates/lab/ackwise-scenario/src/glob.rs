//! `*` and `?` in the names of arms.

/// Whether `name` matches `pattern`: `*` stands for any text, `?` for one character.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where to continue if what follows the last star does not match.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after_star, from)) = retry else {
                    return false;
                };
                retry = Some((after_star, from + 1));
                p = after_star;
                n = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name) in [
            ("", ""),
            ("*", ""),
            ("every-n-*", "every-n-16"),
            ("*-16", "every-n-16"),
            ("e*n*6", "every-n-16"),
            ("every-n-?", "every-n-8"),
            ("**", "x"),
            ("a*b*a", "abbaba"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "x"),
            ("?", ""),
            ("every-n-?", "every-n-16"),
            ("adaptive", "adaptive2"),
            ("a*b", "abc"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
