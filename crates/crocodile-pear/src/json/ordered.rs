//! Values by name, in the order in which the names came.

use std::borrow::Borrow;
use std::hash::Hash;

use hashbrown::HashMap;

/// Up to this many names are compared one by one; more are found by a map. A document may have as many names as it has bytes.
const FEW: usize = 16;

/// Values by name, in the order in which the names came.
pub(crate) struct Ordered<K, T> {
    list: Vec<(K, T)>,
    /// The place of each name, once there are more than a few.
    places: HashMap<K, usize>,
}

impl<K, T> Default for Ordered<K, T> {
    fn default() -> Self {
        Ordered { list: Vec::new(), places: HashMap::new() }
    }
}

impl<K: Borrow<str> + Clone + Eq + Hash, T> Ordered<K, T> {
    fn place(&self, name: &str) -> Option<usize> {
        match self.list.len() > FEW {
            true => self.places.get(name).copied(),
            false => self.list.iter().position(|(known, _)| known.borrow() == name),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// The value of this name; where there is none, the one that is made.
    pub(crate) fn get_or_add(&mut self, name: K, make: impl FnOnce() -> T) -> &mut T {
        let place = self.place(name.borrow()).unwrap_or_else(|| {
            self.add(name, make());
            self.list.len() - 1
        });
        &mut self.list[place].1
    }

    /// Adds a value under a name that has none.
    fn add(&mut self, name: K, value: T) {
        if self.list.len() == FEW {
            self.places = self.list.iter().enumerate().map(|(at, (known, _))| (known.clone(), at)).collect();
        }
        if self.list.len() >= FEW {
            self.places.insert(name.clone(), self.list.len());
        }
        self.list.push((name, value));
    }
}

impl<K, T> Ordered<K, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, T)> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_order_and_their_values_few_or_many() {
        for count in [1, FEW - 1, FEW, FEW + 1, 1_000] {
            let mut names: Ordered<String, Vec<usize>> = Ordered::default();
            for turn in 0..2 {
                (0..count).for_each(|at| names.get_or_add(format!("n{at}"), Vec::new).push(turn));
            }
            assert!((0..count).all(|at| names.has(&format!("n{at}"))) && !names.has(&format!("n{count}")));
            let found: Vec<_> = names.iter().map(|(name, values)| (name.clone(), values.clone())).collect();
            assert_eq!(found, (0..count).map(|at| (format!("n{at}"), vec![0, 1])).collect::<Vec<_>>());
        }
    }
}
