//! A build without expressions: closures of a program take the place of expressions. Of texts there are only plain paths to a
//! list, `.orders[]`.

#[path = "value/closure.rs"]
mod closure;
#[path = "syntax/compile_error.rs"]
mod compile_error;
#[path = "part.rs"]
mod part;

use std::sync::Arc;

pub use self::closure::Closure;
pub use self::compile_error::Fault;
pub use self::part::Read;
#[doc(inline)]
pub use crate::json::Data;
/// The inputs and outputs of closures.
pub use crate::json::value::{Value, as_str, kind, list, null, object, string};

use crate::error::{Error, Kind};
use crate::json::items::Path;

/// A closure in the place of an expression, or a path. Cheap to clone.
#[derive(Clone)]
pub struct Filter {
    code: Code,
    uses: Vec<String>,
    reads: Arc<[Read]>,
}

#[derive(Clone)]
enum Code {
    Closure(Closure),
    Path(Arc<Path>),
}

impl Filter {
    /// A path to a list.
    ///
    /// # Errors
    /// The text is no such path.
    pub fn compile(source: &str, _: &[&str]) -> Result<Self, Vec<Fault>> {
        if let Some(path) = Path::parse(source) {
            return Ok(Filter::of(Code::Path(Arc::new(path))));
        }
        let message = "this program was built without jq, but for paths such as `.orders[]`".to_owned();
        let remedy =
            "build `crocodile-pear` with its feature `jq`, `crocodile-pear-jq` with `expressions`, or write a closure"
                .to_owned();
        Err(vec![Fault { offset: 0, length: source.len(), message, remedy }])
    }

    /// A closure of a Rust program in the place of an expression.
    pub fn of_closure(closure: Closure) -> Self {
        Filter::of(Code::Closure(closure))
    }

    fn of(code: Code) -> Self {
        Filter { code, uses: Vec::new(), reads: Arc::new([]) }
    }

    /// The same filter over these named results, if its closure takes one object of them instead of the item.
    #[must_use]
    pub fn over(self, names: &[String]) -> Self {
        let takes_names = matches!(&self.code, Code::Closure(closure) if closure.takes_names());
        if !takes_names || names.is_empty() {
            return self;
        }
        let reads = names.iter().map(|name| Read { variable: name.clone(), field: None }).collect();
        Filter { uses: names.to_vec(), reads, ..self }
    }

    /// The named results that the closure takes.
    pub fn uses(&self) -> &[String] {
        &self.uses
    }

    /// The same, as parts of variables.
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Whether it may read the item: a closure over named results reads those alone.
    pub fn reads_item(&self) -> bool {
        self.uses.is_empty()
    }

    /// Whether it may read this field of the item: a closure may read all.
    pub fn may_take(&self, _: &str) -> bool {
        true
    }

    /// Whether it only takes parts: that is not known of a closure.
    pub fn is_native(&self) -> bool {
        false
    }

    /// All outputs for `input`.
    ///
    /// # Errors
    /// The errors of the closure or of the path.
    pub fn apply(&self, input: Data, lookup: &mut dyn FnMut(&str) -> Data) -> Result<Vec<Data>, Error> {
        match &self.code {
            Code::Closure(closure) => closure.run(input, &self.uses, lookup),
            Code::Path(path) => Ok(path.items_of(&input.into_value())?.into_iter().map(Data::from).collect()),
        }
    }

    /// No output: a closure runs as a whole.
    pub fn pick(&self, _: &Data, _: &mut dyn FnMut(&str) -> Data) -> Option<Data> {
        None
    }

    /// All outputs for `input`.
    ///
    /// # Errors
    /// The errors of the closure.
    pub fn run(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value) -> Result<Vec<Value>, Error> {
        let outputs = self.apply(input.into(), &mut |name| lookup(name).into())?;
        Ok(outputs.into_iter().map(Data::into_value).collect())
    }

    /// The output for `input`, if there is one.
    ///
    /// # Errors
    /// The errors of the closure, and one if there are several outputs.
    pub fn run_one(&self, input: Value, lookup: &mut dyn FnMut(&str) -> Value) -> Result<Option<Value>, Error> {
        let mut outputs = self.run(input, lookup)?;
        let output = outputs.pop();
        match outputs.is_empty() {
            true => Ok(output),
            false => Err(Error::new(Kind::Expression, "the expression has more than one output")),
        }
    }
}

/// The parts of jq that are rejected: all of it.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::empty()
}

/// Whether there is such a function: without expressions there is none.
pub fn is_function(_: &str, _: usize) -> bool {
    false
}

/// The variables of an expression: without expressions there are none.
pub fn variables(_: &str) -> Vec<&str> {
    Vec::new()
}

/// The place of an assignment: without expressions there is none.
pub fn assignment(_: &str) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::{Data, Filter, null};
    use crate::json::read;

    fn items(path: &str, json: &str) -> Result<Vec<String>, String> {
        let filter = Filter::compile(path, &[]).map_err(|faults| faults[0].message.clone())?;
        let input = Data::from(read(&json.as_bytes().to_vec().into()).expect("JSON"));
        let outputs = filter.apply(input, &mut |_| null().into()).map_err(|error| error.detail().to_owned())?;
        Ok(outputs.into_iter().map(|output| output.into_value().to_string()).collect())
    }

    #[test]
    fn paths_to_a_list_need_no_engine() {
        assert_eq!(
            items(".a[]", r#"{"a":[1,"x",{"b":[null,1.50]}]}"#).unwrap(),
            ["1", r#""x""#, r#"{"b":[null,1.50]}"#]
        );
        assert_eq!(items(".[]", r#"{"a":1,"b":true}"#).unwrap(), ["1", "true"]);
        assert_eq!(items(".a.b[]?", r#"{"a":{}}"#).unwrap(), Vec::<String>::new());
        assert_eq!(items(".a[]", "[]").unwrap_err(), "cannot index array with \"a\"");
        assert_eq!(items(".a[]", "{}").unwrap_err(), "cannot iterate over null");
    }

    #[test]
    fn other_expressions_are_refused_and_name_the_feature() {
        let faults = Filter::compile(".a | length", &[]).err().unwrap();
        assert!(faults[0].remedy.contains("feature `jq`"), "{faults:?}");
    }
}
