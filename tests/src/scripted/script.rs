//! What a case says of a scripted server: its records, and its faults.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Its records.
    pub zone: Vec<String>,
    /// What it does beside answering from them.
    pub behave: Behave,
    /// It listens on port 53 of this address (`IP2`), and not on the port of its name.
    pub at: Option<String>,
}

/// Faults, each for itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behave {
    /// Never answers.
    pub silent: bool,
    /// Answers only so many.
    pub silent_after: Option<usize>,
    /// Does not answer in its first seconds.
    pub silent_for: f64,
    /// Does not answer probes.
    pub health_silent: bool,
    /// Leaves the first so many without an answer.
    pub drop_first: usize,
    /// Milliseconds before each answer.
    pub delay_ms: u64,
    /// The same, later.
    pub slow_after: Option<SlowAfter>,
    /// An empty answer with this rcode.
    pub rcode: Option<String>,
    /// The same, for these names.
    pub rcode_for: BTreeMap<String, String>,
    /// The same, later.
    pub rcode_after: Option<RcodeAfter>,
    /// The first so many fail.
    pub servfail_first: usize,
    /// Other records, later.
    pub zone_after: Option<ZoneAfter>,
    /// Header bits of every answer.
    pub flags: Bits,
    /// Records added to every answer.
    pub authority: Vec<String>,
    /// Records added to every answer.
    pub additional: Vec<String>,
    /// A datagram holds no records, and says that there are more.
    pub tc_udp: bool,
    /// A datagram may be larger than was asked for.
    pub overflow: bool,
    /// Nobody listens there.
    pub no_udp: bool,
    /// Nobody listens there.
    pub no_tcp: bool,
    /// A connection ends after one answer.
    pub close_tcp: bool,
    /// The id plus one.
    pub wrong_id: bool,
    /// The same, before the right one.
    pub wrong_id_first: bool,
    /// Three bytes come before each answer.
    pub garbage_first: bool,
    /// This name stands in the question.
    pub wrong_question: Option<String>,
    /// The same, before the right one.
    pub wrong_question_first: Option<String>,
    /// The question comes back in lower case.
    pub lower_question: bool,
    /// An OPT comes unasked.
    pub always_opt: bool,
}

/// From which question on it is slow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowAfter {
    /// Questions before.
    pub after: usize,
    /// Milliseconds then.
    pub delay_ms: u64,
}

/// From which question on it answers with an rcode alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RcodeAfter {
    /// Questions before.
    pub after: usize,
    /// The rcode then.
    pub rcode: String,
}

/// From which question on it has other records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneAfter {
    /// Questions before.
    pub after: usize,
    /// The records then.
    pub zone: Vec<String>,
}

/// Header bits to set or to clear.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bits {
    /// Authoritative.
    pub aa: Option<bool>,
    /// Truncated.
    pub tc: Option<bool>,
    /// Recursion desired.
    pub rd: Option<bool>,
    /// Recursion available.
    pub ra: Option<bool>,
    /// Authentic data.
    pub ad: Option<bool>,
    /// Checking disabled.
    pub cd: Option<bool>,
}
