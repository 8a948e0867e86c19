//! Weight files of `loadbalance weighted`: read at the start, looked at again, published when they changed.

use std::sync::Arc;

use anyhow::Context as _;
use nodens_engine::zone::trie::NameHash;
use nodens_engine::zone::{Weights, Zone};
use nodens_sources::weights;
use nodens_sources::wrong::{WrongLine, WrongLines};
use tokio::sync;

use crate::compile::WeightsSource;
use crate::corefile::{Diagnostic, Findings};
use crate::files::{of_lines, read};
use crate::follow::follow;
use crate::output;
use crate::publish::Publisher;

/// Largest weight file that is read: some 300,000 names.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The weights of a `loadbalance`.
#[derive(Debug)]
pub struct WeightFile {
    source: WeightsSource,
    hash: NameHash,
    /// The hash of the text that was read last, good or bad.
    seen: Option<u64>,
}

/// What looking at the file brings.
enum Look {
    Weights(Weights),
    /// The text is the one seen last.
    Unchanged,
}

impl WeightFile {
    /// Not read yet.
    pub fn new(source: WeightsSource, hash: NameHash) -> Self {
        let seen = None;
        Self { source, hash, seen }
    }

    /// Reads the file at the start and publishes its weights; without it every address weighs the same.
    ///
    /// # Errors
    /// The file makes no sense, or is not there and will not be looked for again.
    pub fn start(&mut self, publisher: &Publisher) -> Result<(), Findings> {
        match self.first() {
            Ok(weights) => publisher.zone(self.source.id, Zone::Weights(weights)),
            Err(found) if found.errors.is_empty() => {
                found.warnings.iter().for_each(|warning| output::warning(&warning.text));
            }
            Err(found) => return Err(found),
        }
        Ok(())
    }

    /// What the file says before anything is served; only a warning where it cannot be read and is looked for again.
    pub(crate) fn first(&mut self) -> Result<Weights, Findings> {
        let WeightsSource { settings, .. } = &self.source;
        let (span, reload) = (settings.file_span, settings.reload);
        let wrong = |error: String| Diagnostic::setup(span, format!("plugin/loadbalance: {error}"));
        match self.look() {
            Ok(Ok(Look::Weights(weights))) => Ok(weights),
            // Nothing was seen before.
            Ok(Ok(Look::Unchanged)) => Ok(Weights::new(self.hash.clone(), [])),
            Ok(Err(lines)) => {
                let help = "a name stands alone on its line, its addresses below it as `ADDRESS WEIGHT`, 1 to 255";
                let headline = |line: &WrongLine| format!("plugin/loadbalance: {}", line.text);
                Err(of_lines(span, &lines, headline, help))
            }
            Err(error) if reload.is_zero() => {
                let help = "name a file that can be read; with a `reload` other than 0 it may also come later";
                Err(wrong(format!("{error:#}")).help(help).into())
            }
            Err(error) => {
                let text = format!("plugin/loadbalance: {error:#}. Will try again in {reload:?}");
                let warning = Diagnostic::warning(span, text);
                Err(warning
                    .help("until it can be read, every address weighs the same")
                    .into())
            }
        }
    }

    /// Reads the file. The outer error is one of reading, the inner one of what was read.
    fn look(&mut self) -> anyhow::Result<Result<Look, WrongLines>> {
        let file = &self.source.settings.file;
        let name = file.display().to_string();
        let text = read(file, FILE_BYTES_MAX).with_context(|| format!("Failed to open weight file {name}"))?;
        let seen = Some(self.hash.of(&text));
        if self.seen == seen {
            return Ok(Ok(Look::Unchanged));
        }
        self.seen = seen;
        let listed = weights::parse(&text, file);
        Ok(listed.map(|listed| Look::Weights(Weights::new(self.hash.clone(), listed))))
    }

    /// Looks at the file every now and then, and when it is asked to, for ever. What makes no sense leaves the weights as
    /// they are.
    pub async fn follow(self, publisher: Arc<Publisher>, asked: Arc<sync::Notify>) {
        let every = self.source.settings.reload;
        let lost = "plugin/loadbalance: reading a weight file failed for good; it is no longer looked at";
        follow(self, every, &asked, lost, Self::look, |own, seen| match seen {
            Ok(Ok(Look::Weights(weights))) => {
                publisher.zone(own.source.id, Zone::Weights(weights));
                let file = own.source.settings.file.display();
                output::info(&format!("plugin/loadbalance: Successfully reloaded weight file {file}"));
            }
            Ok(Ok(Look::Unchanged)) => {}
            Ok(Err(error)) => output::error(&format!("plugin/loadbalance: {error}; the weights stay as they were")),
            Err(error) => output::error(&format!("plugin/loadbalance: {error:#}; the weights stay as they were")),
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nodens_engine::snapshot::{Published, ZoneId};

    use super::*;
    use crate::corefile::settings::Weighted;
    use crate::corefile::source::Span;

    /// Whether there are weights after the start, or why there is no start.
    fn start(text: &[u8], len: Option<u64>, reload: u64) -> Result<bool, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w");
        if !text.is_empty() || len.is_some() {
            std::fs::write(&path, text).unwrap();
        }
        if let Some(len) = len {
            std::fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(len)
                .unwrap();
        }
        let span = Span {
            file: 0,
            start: 0,
            end: 0,
        };
        let settings = Weighted {
            file: path,
            file_span: span,
            reload: Duration::from_secs(reload),
        };
        let id = ZoneId(0);
        let published = Arc::new(Published::default());
        let publisher = Publisher::new(Arc::clone(&published));
        let mut file = WeightFile::new(WeightsSource { id, settings }, NameHash::new(1));
        let started = file.start(&publisher).map_err(|error| format!("{error:?}"));
        started.map(|()| matches!(published.load().1.zone(id), Some(Zone::Weights(_))))
    }

    #[test]
    fn a_file_that_makes_no_sense_stops_the_start_and_one_that_is_not_there_may_come() {
        assert_eq!(start(b"a\n192.0.2.1 2\n", None, 30), Ok(true));
        assert!(start(b"a\n192.0.2.1 0\n", None, 30).is_err());
        assert_eq!(start(b"", None, 30), Ok(false));
        assert!(start(b"", None, 0).is_err());
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let comment = |len: u64| start(&[b"#", &vec![b' '; len as usize - 1][..]].concat(), None, 0);
        assert_eq!(comment(FILE_BYTES_MAX), Ok(true));
        assert!(comment(FILE_BYTES_MAX + 1).is_err_and(|error| error.contains("larger than")));
        assert_eq!(start(b"#", Some(FILE_BYTES_MAX + 1), 30), Ok(false));
    }
}
