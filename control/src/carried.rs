//! What lives through a reload while its settings stay the same.

/// Things by their settings: those of one configuration, and those of the one before that it has not asked for.
#[derive(Clone, Debug)]
pub struct Carried<K, V> {
    used: Vec<(K, V)>,
    before: Vec<(K, V)>,
}

impl<K, V> Default for Carried<K, V> {
    fn default() -> Self {
        Self {
            used: Vec::new(),
            before: Vec::new(),
        }
    }
}

impl<K: Clone + PartialEq, V: Clone> Carried<K, V> {
    /// Those of the next configuration; what it does not ask for will be gone.
    pub fn next(&self) -> Self {
        Self {
            used: Vec::new(),
            before: self.used.clone(),
        }
    }

    /// The one with these settings, made where there was none. Of several equal ones each is its own.
    pub fn get(&mut self, key: K, make: impl FnOnce(&K) -> V) -> V {
        let known = self.before.iter().position(|(own, _)| *own == key);
        let own = known.map_or_else(|| make(&key), |at| self.before.remove(at).1);
        self.used.push((key, own.clone()));
        own
    }

    /// All in use, in the order in which they were asked for.
    pub fn all(&self) -> impl Iterator<Item = &V> {
        self.used.iter().map(|(_, own)| own)
    }

    /// Takes those out that nobody has asked for.
    pub fn take_gone(&mut self) -> impl Iterator<Item = V> + '_ {
        self.before.drain(..).map(|(_, own)| own)
    }
}
