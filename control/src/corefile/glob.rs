//! File name patterns of `import`: one `*` and one `?`, which is enough and cannot take long.

use std::path::{Path, PathBuf};

use super::source::World;

/// Whether a name is a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The name of one file.
    Plain,
    /// It has a `*` or a `?`.
    Wild,
}

/// More wildcards than a pattern may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooWild;

impl Pattern {
    /// Looks for the wildcards of a name.
    pub(super) fn parse(name: &str) -> Result<Self, TooWild> {
        let count = |wildcard| name.matches(wildcard).count();
        if count('*') > 1 || count('?') > 1 || (name.contains('[') && name.contains(']')) {
            return Err(TooWild);
        }
        Ok(if name.contains(['*', '?']) {
            Self::Wild
        } else {
            Self::Plain
        })
    }
}

/// The paths that match, in the order of their names. A folder that cannot be listed holds none.
pub(super) fn find(world: &dyn World, folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let start = if pattern.starts_with('/') {
        PathBuf::from("/")
    } else {
        folder.to_owned()
    };
    let mut found = vec![start];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for path in found {
            if !part.contains(['*', '?']) {
                let path = path.join(part);
                if world.exists(&path) {
                    next.push(path);
                }
                continue;
            }
            let mut names = world.list(&path).unwrap_or_default();
            names.retain(|name| matches(part, name));
            names.sort_unstable();
            next.extend(names.iter().map(|name| path.join(name)));
        }
        found = next;
    }
    found
}

/// Whether a name matches a part of a pattern; `*` is any text and `?` any one character.
fn matches(pattern: &str, name: &str) -> bool {
    let like = |pattern: &str, name: &str| {
        pattern.chars().count() == name.chars().count()
            && pattern
                .chars()
                .zip(name.chars())
                .all(|(wanted, found)| wanted == '?' || wanted == found)
    };
    let Some((before, behind)) = pattern.split_once('*') else {
        return like(pattern, name);
    };
    let (before_len, behind_len) = (before.chars().count(), behind.chars().count());
    let name_len = name.chars().count();
    if before_len + behind_len > name_len {
        return false;
    }
    let head: String = name.chars().take(before_len).collect();
    let tail: String = name.chars().skip(name_len - behind_len).collect();
    like(before, &head) && like(behind, &tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wildcard_of_each_kind() {
        for (name, expected) in [
            ("a", Ok(Pattern::Plain)),
            ("a[b", Ok(Pattern::Plain)),
            ("*", Ok(Pattern::Wild)),
            ("a?", Ok(Pattern::Wild)),
            ("*.?", Ok(Pattern::Wild)),
            ("*/*", Err(TooWild)),
            ("??", Err(TooWild)),
            ("[ab]", Err(TooWild)),
            ("a]b[", Err(TooWild)),
        ] {
            assert_eq!(Pattern::parse(name), expected, "{name}");
        }
    }

    #[test]
    fn matching() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("*", "", true),
            ("*", ".hidden", true),
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a*b", "ab", true),
            ("a*b", "axxb", true),
            ("a*a", "a", false),
            ("?", "ü", true),
            ("?", "ab", false),
            ("a?c*", "abcd", true),
            ("*?", "", false),
            ("*?", "x", true),
            ("?*", "üb", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
