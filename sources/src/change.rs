//! What every watched source says: keyed changes, and where it stands.

/// One step of a source's story, in the order in which it has to be applied.
///
/// A full read is a `Reset`, then `Upsert`s in ascending byte order of their keys, then `Synced`. What stood before
/// the `Reset` goes on being served until then; what the read did not name is gone at `Synced`. Between full
/// reads `Upsert` and `Remove` come as they happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<V> {
    /// A full read begins. A second one before `Synced` begins the read anew.
    Reset,
    /// The key holds this value now.
    Upsert {
        /// The source's own key, whole.
        key: Box<[u8]>,
        /// What it holds.
        value: V,
    },
    /// The key is gone.
    Remove {
        /// The source's own key, whole.
        key: Box<[u8]>,
    },
    /// Everything up to this revision has been said; also said when a lost source is followed again without a read.
    Synced {
        /// The source's count of its changes.
        revision: i64,
    },
    /// The source cannot be followed for now. What it said stays valid, however old.
    Lost {
        /// For people; never holds a secret.
        reason: String,
    },
}
