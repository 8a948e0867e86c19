//! `chaos [VERSION] [AUTHORS...]`

use std::collections::BTreeSet;

use super::scope::Scope;
use crate::corefile::parser::Line;
use crate::corefile::settings::Chaos;

/// Who is named where the Corefile names nobody.
const AUTHORS: &str = "the authors of nodens";

/// Reads the directive.
pub(super) fn chaos(line: &Line, scope: &mut Scope<'_>) -> Option<Chaos> {
    scope.no_block(line);
    let mut words = line.args.iter().map(|word| word.text.to_string());
    let version = words.next();
    let mut authors: BTreeSet<String> = words.collect();
    if authors.is_empty() {
        authors.insert(AUTHORS.to_owned());
    }
    Some(Chaos {
        version: version.unwrap_or_else(|| concat!("nodens-", env!("CARGO_PKG_VERSION")).to_owned()),
        authors: authors.into_iter().collect(),
    })
}
