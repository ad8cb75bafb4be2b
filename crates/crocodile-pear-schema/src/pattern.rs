//! Regular expressions of schemas, with bounded work: whatever the pattern and the text are, the time is known beforehand.

use std::sync::{Mutex, PoisonError};

use crocodile_pear_jq::meter;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};

/// The most bytes of a compiled pattern.
const LARGEST: usize = 10 << 20;

/// Bytes of a text that are read for one unit of work, where the pattern is an automaton.
const AUTOMATON: usize = 16;

/// Steps of the engine that follows all states at once, for one unit of work.
const STEPS: usize = 4;

/// An automaton is made as the texts need it, in so many bytes, which are freed so often. After that, texts make more of it
/// than it helps.
const CACHE: usize = 256 << 10;
const CLEARED: usize = 4;
const USEFUL: usize = 10;

/// Automata that are kept, by threads that may use the pattern at once.
const KEPT: usize = 4;

#[derive(Debug)]
pub struct Pattern {
    pub written: Box<str>,
    dfa: DFA,
    nfa: NFA,
    caches: Mutex<Vec<Cache>>,
}

impl Pattern {
    /// Compiles a pattern of ECMA-262, without what needs to go back in the text.
    ///
    /// # Errors
    /// A description of what is wrong with it.
    pub fn compile(written: &str) -> Result<Self, String> {
        let wrong = |detail: String| format!("`{written}` is not a pattern that can be checked: {detail}");
        let translated = jsonschema_regex::to_rust_regex(written)
            .map_err(|()| wrong("it has a syntax that is not known".to_owned()))?;
        let config = thompson::Config::new().nfa_size_limit(Some(LARGEST)).which_captures(WhichCaptures::Implicit);
        let nfa = thompson::Compiler::new().configure(config).build(&translated);
        let nfa = nfa.map_err(|error| wrong(error.to_string()))?;
        let config = Config::new()
            .cache_capacity(CACHE)
            .skip_cache_capacity_check(true)
            .unicode_word_boundary(true)
            .minimum_cache_clear_count(Some(CLEARED))
            .minimum_bytes_per_state(Some(USEFUL));
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa.clone());
        let dfa = dfa.map_err(|error| wrong(error.to_string()))?;
        Ok(Pattern { written: written.into(), dfa, nfa, caches: Mutex::default() })
    }

    /// Whether a part of the text is like it.
    pub fn is_match(&self, text: &str) -> bool {
        meter::charge(2 + text.len() / AUTOMATON);
        let mut cache = self.lock().pop().unwrap_or_else(|| self.dfa.create_cache());
        let found = self.dfa.try_search_fwd(&mut cache, &Input::new(text).earliest(true));
        if cache.memory_usage() <= CACHE {
            let mut caches = self.lock();
            if caches.len() < KEPT {
                caches.push(cache);
            }
        }
        match found {
            Ok(found) => found.is_some(),
            // It would have too many states for this text, or needs to know more of it.
            Err(_) => self.follow(text),
        }
    }

    /// Follows all states at once.
    fn follow(&self, text: &str) -> bool {
        meter::charge(text.len().saturating_mul(self.nfa.states().len()) / STEPS);
        let Ok(machine) = PikeVM::new_from_nfa(self.nfa.clone()) else { return false };
        let mut cache = machine.create_cache();
        machine.is_match(&mut cache, text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Cache>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
