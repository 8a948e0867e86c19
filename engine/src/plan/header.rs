//! The `header` step: bits of the header are set or cleared.

use super::is_servers_own;
use crate::answer::Answer;

/// The `header` step. `None` leaves a bit as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// RD of the question, and so of every reply to it.
    pub query_rd: Option<bool>,
    /// AA of a reply.
    pub aa: Option<bool>,
    /// RA of a reply.
    pub ra: Option<bool>,
    /// RD of a reply.
    pub rd: Option<bool>,
}

/// The question is seen on the way down.
#[inline(never)]
pub(super) fn enter(header: &Header, answer: &mut Answer<'_>) {
    answer.extras.rd = header.query_rd.or(answer.extras.rd);
}

/// Replies of steps are seen on the way up; those that the server makes itself come from above.
#[inline(never)]
pub(super) fn leave(header: &Header, answer: &mut Answer<'_>) {
    if is_servers_own(answer) {
        return;
    }
    answer.aa = header.aa.unwrap_or(answer.aa);
    answer.extras.ra = header.ra.unwrap_or(answer.extras.ra);
    answer.extras.rd = header.rd.or(answer.extras.rd);
}
