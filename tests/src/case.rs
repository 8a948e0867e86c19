//! The case format: one YAML file is one [`Case`]; `cases/FORMAT.md` says what each key means.
//!
//! A key that is not listed here is an error, so that a typing mistake cannot switch a check off.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::scripted::Script;

/// A scenario: a configuration, the data behind it, what is asked and what must come.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// One line: what the scenario shows.
    pub about: String,
    /// One line: what CoreDNS does instead.
    pub differs_from_coredns: Option<String>,
    /// The configuration.
    pub corefile: String,
    /// Files beside it, by name.
    pub files: BTreeMap<String, String>,
    /// Environment variables of the server.
    pub env: BTreeMap<String, Value>,
    /// The command line in place of `-conf Corefile`.
    pub args: Option<Vec<Value>>,
    /// Keys of etcd before the server starts.
    pub etcd: BTreeMap<String, Value>,
    /// An etcd of this scenario's own, that speaks TLS.
    pub etcd_tls: Option<EtcdTls>,
    /// An etcd of this scenario's own, that demands a password.
    pub etcd_auth: Option<EtcdAuth>,
    /// An etcd of this scenario's own, on this port.
    pub etcd_port: Option<u16>,
    /// Objects of Kubernetes before the server starts, as documents of YAML.
    pub manifests: String,
    /// `stopped`: the API server does not run when the server starts.
    pub apiserver: Option<ApiServer>,
    /// Scripted DNS servers, by the placeholder of their port.
    pub upstreams: BTreeMap<String, Script>,
    /// Conditions that this machine must meet.
    pub needs: Words,
    /// What is asked, in order.
    pub queries: Vec<Ask>,
    /// Changes while the server runs.
    pub steps: Vec<Step>,
    /// The configuration is refused; CoreDNS says this.
    pub config_error: Option<String>,
    /// The exit status that must come, or `running`.
    pub exit: Option<Value>,
    /// Seconds to wait for it.
    pub exit_within: Option<f64>,
    /// Texts that must stand in the output.
    pub log_contains: Vec<String>,
    /// Texts that must not.
    pub log_lacks: Vec<String>,
    /// Patterns that must match somewhere in it.
    pub log_match: Vec<String>,
}

/// What becomes of the API server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ApiServer {
    /// It does not run from the start.
    Stopped,
    /// It ends; its data stays.
    Stop,
    /// It runs again.
    Start,
}

/// How etcd speaks TLS.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum EtcdTls {
    /// It shows a certificate.
    Server,
    /// It demands one, too.
    Mutual,
}

/// Who may read an etcd that lets in nobody else.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdAuth {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// The keys that this user may read begin so.
    #[serde(default = "skydns")]
    pub prefix: String,
}

fn skydns() -> String {
    "/skydns".to_owned()
}

/// One word or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// A single one.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for Words {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Words {
    /// All of them.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Many(words) => words,
        }
    }

    /// Whether `word` is among them.
    pub fn has(&self, word: &str) -> bool {
        self.as_slice().iter().any(|w| w == word)
    }
}

/// A change while the server runs, and what is asked after it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// Keys to write.
    pub etcd_put: BTreeMap<String, Value>,
    /// Keys to delete.
    pub etcd_delete: Words,
    /// Objects of Kubernetes to write.
    pub apply: String,
    /// Objects to delete, `KIND/NAMESPACE/NAME` or `KIND/NAME`.
    pub delete: Words,
    /// The API server ends, or runs again.
    pub apiserver: Option<ApiServer>,
    /// A scripted server that closes its sockets.
    pub stop_upstream: Option<String>,
    /// One that opens them again.
    pub start_upstream: Option<String>,
    /// Files to write; `null` deletes one.
    pub write: BTreeMap<String, Option<String>>,
    /// A signal for the server, without `SIG`.
    pub signal: Option<String>,
    /// Seconds to wait.
    pub sleep: f64,
    /// Asked then.
    pub queries: Vec<Ask>,
}

/// A question, and what must come back.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// `NAME TYPE [CLASS]`.
    pub ask: Option<String>,
    /// The whole packet in hex.
    pub raw: Option<String>,
    /// `norec`, `cd`, `ad`.
    pub query_flags: Vec<String>,
    /// Keeps RD set where `rd: false` is expected.
    pub rd_sent: bool,
    /// The OPT to send.
    pub edns: Option<AskEdns>,
    /// Short for an OPT of this size.
    pub bufsize: Option<u16>,
    /// `tcp` or `tls`, else UDP.
    pub transport: Option<Transport>,
    /// With `tls`: whom the client trusts, and who it is.
    pub tls: AskTls,
    /// The serial that an IXFR question names.
    pub serial: Option<u32>,
    /// Name of another port, or its number.
    pub port: Option<Value>,
    /// Another address to ask.
    pub to: Option<String>,
    /// The address to ask from.
    pub from: Option<String>,
    /// Seconds to wait for the reply.
    pub timeout: Option<f64>,
    /// Seconds to wait first.
    pub sleep_before: f64,
    /// Files to write before; `null` deletes one.
    pub write: BTreeMap<String, Option<String>>,
    /// A signal to send before.
    pub signal: Option<String>,
    /// The question so many times at once.
    pub parallel: Option<usize>,
    /// Then: how many replies with each rcode.
    pub rcodes: Option<BTreeMap<String, usize>>,
    /// Several questions on one connection.
    pub tcp_stream: Option<TcpStreamAsk>,
    /// GET of this path, in place of a question.
    pub http: Option<String>,
    /// HTTP status, 200 unless said.
    pub status: Option<u16>,
    /// Patterns that must match in the page.
    pub contains: Vec<String>,
    /// Patterns that must not.
    pub not_contains: Vec<String>,
    /// Series to the sum that they must have.
    pub metrics: BTreeMap<String, Value>,
    /// Series name to exactly its labels.
    pub metric_labels: BTreeMap<String, Vec<String>>,
    /// `none`, or the packet in hex with `.` and `*`.
    pub reply: Option<String>,
    /// Same as `reply: none`.
    pub no_reply: bool,
    /// A name, or several of which one must come.
    pub rcode: Option<Words>,
    /// Header bit.
    pub qr: Option<bool>,
    /// Header bit.
    pub aa: Option<bool>,
    /// Header bit.
    pub tc: Option<bool>,
    /// Header bit.
    pub rd: Option<bool>,
    /// Header bit.
    pub ra: Option<bool>,
    /// Header bit.
    pub ad: Option<bool>,
    /// Header bit.
    pub cd: Option<bool>,
    /// All records of the section.
    pub answer: Option<Vec<String>>,
    /// All records of the section.
    pub authority: Option<Vec<String>>,
    /// All records of the section.
    pub additional: Option<Vec<String>>,
    /// Each section in this order.
    pub ordered: bool,
    /// Records that must be among the answers.
    pub answer_has: Option<Vec<String>>,
    /// Number of answers.
    pub answer_count: Option<usize>,
    /// Least number of answers.
    pub answer_count_at_least: Option<usize>,
    /// Whether each address leads in turn, over 60 replies.
    pub rotates: Option<bool>,
    /// How often each address leads, over 200 replies.
    pub leads: Option<BTreeMap<String, (usize, usize)>>,
    /// `NAME TYPE` of the reply's question in exact case.
    pub question: Option<String>,
    /// The reply's OPT.
    pub reply_edns: Option<ReplyEdns>,
    /// Bytes.
    pub reply_size_at_most: Option<usize>,
    /// For every record but the OPT.
    pub ttl_at_most: Option<u32>,
    /// For every record but the OPT.
    pub ttl_at_least: Option<u32>,
    /// Seconds to the reply at most.
    pub within: Option<f64>,
    /// Seconds to the reply at least.
    pub not_before: Option<f64>,
    /// How many questions each scripted server has had.
    pub upstream_seen: BTreeMap<String, usize>,
    /// Seconds to wait before looking.
    pub wait_after: f64,
}

/// How a question travels.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A connection for each question.
    Tcp,
    /// The same under TLS.
    Tls,
}

/// The client of a question over TLS.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AskTls {
    /// The authority that must have signed the server's certificate; `CA` unless said.
    pub ca: Option<String>,
    /// Its own certificate, `CERT` or `OTHERCERT`.
    pub cert: Option<String>,
    /// What the server's certificate must name; `localhost` unless said.
    pub name: Option<String>,
    /// The only version it offers.
    pub version: Option<Value>,
}

/// The OPT of a question.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AskEdns {
    /// Advertised size.
    pub bufsize: u16,
    /// DNSSEC OK.
    #[serde(rename = "do")]
    pub dnssec_ok: bool,
    /// Version.
    pub version: u8,
    /// `CODE:HEX` or `CODE`.
    pub options: Vec<Value>,
    /// An empty NSID option.
    pub nsid: bool,
}

impl Default for AskEdns {
    fn default() -> Self {
        Self {
            bufsize: 1232,
            dnssec_ok: false,
            version: 0,
            options: Vec::new(),
            nsid: false,
        }
    }
}

/// The OPT that a reply must have, or the word `none`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ReplyEdns {
    /// No OPT.
    Word(String),
    /// An OPT with these properties.
    Opt(ReplyOpt),
}

/// Properties of a reply's OPT; what is left out is not checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyOpt {
    /// Version.
    pub version: Option<u8>,
    /// Size.
    pub udp: Option<u16>,
    /// DNSSEC OK.
    #[serde(rename = "do")]
    pub dnssec_ok: Option<bool>,
    /// All 16 flag bits.
    pub flags: Option<u16>,
    /// All options, `CODE:HEX`.
    pub options: Option<Vec<String>>,
    /// An option that must not be there.
    pub no_option: Option<String>,
}

/// Several questions on one TCP connection, written at once.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpStreamAsk {
    /// `NAME TYPE`.
    pub send: Vec<String>,
    /// Packets in hex.
    pub send_raw: Vec<String>,
    /// How many replies must come, in any order.
    pub replies: usize,
    /// Seconds from the last reply, or the start, until the server closes.
    pub closed_between: Option<(f64, f64)>,
}

impl Case {
    /// Reads a file.
    ///
    /// # Errors
    /// The file's name with what is wrong in it.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads a scenario from its text.
    ///
    /// # Errors
    /// What is wrong: not YAML, an unknown key, nothing to check.
    pub fn parse(text: &str) -> Result<Self, String> {
        let case: Self = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
        if case.about.is_empty() {
            return Err("`about` is missing".to_owned());
        }
        let asks = !case.queries.is_empty() || !case.steps.is_empty();
        if asks == case.config_error.is_some() {
            return Err("either `config_error`, or `queries` or `steps`".to_owned());
        }
        Ok(case)
    }

    /// All questions, those of the steps too.
    pub fn all_queries(&self) -> impl Iterator<Item = &Ask> {
        self.queries
            .iter()
            .chain(self.steps.iter().flat_map(|step| &step.queries))
    }
}

/// All cases below a folder, in order of their paths.
///
/// # Errors
/// The folder cannot be read.
pub fn files_below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "yaml") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: Result<usize, &str>) {
        match (Case::parse(text), wanted) {
            (Ok(case), Ok(count)) => assert_eq!(case.all_queries().count(), count, "{text}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (got, wanted) => panic!("{text}: {:?}, not {wanted:?}", got.map(|c| c.about)),
        }
    }

    #[test]
    fn keys() {
        check(
            "about: x\ncorefile: y\nqueries:\n  - {ask: a. A, rcode: NOERROR}\n",
            Ok(1),
        );
        check(
            "about: x\ncorefile: y\nqueries:\n  - {ask: a. A, rcode: [NOERROR, REFUSED], edns: {do: true}}\n",
            Ok(1),
        );
        check(
            "about: x\ncorefile: y\nsteps:\n  - etcd_delete: k\n    queries:\n      - {ask: a. A}\n",
            Ok(1),
        );
        check(
            "about: x\ncorefile: y\nqueries:\n  - {ask: a. A, rcod: NOERROR}\n",
            Err("rcod"),
        );
        check("about: x\ncorefile: y\nquerys: []\n", Err("querys"));
        check("about: x\ncorefile: y\n", Err("either"));
        check("corefile: y\nconfig_error: z\n", Err("about"));
    }
}
