//! `metadata [ZONES...]`

use nodens_wire::NameBuf;

use super::scope::Scope;
use crate::corefile::parser::Line;

/// Reads the directive: the zones for whose names there are metadata.
pub(super) fn metadata(line: &Line, scope: &mut Scope<'_>) -> Option<Vec<NameBuf>> {
    scope.no_block(line);
    Some(scope.zones(&line.args))
}
