//! Runs code. A step passes on each output before it computes the next.
//!
//! While paths are tracked (`path(f)`, updates), each output knows its place in the input. Between outputs only the
//! stack holds data, so nothing is collected unless a step collects it itself.

use super::code::{Bind, Code, Entry, Fold, Native, Node, Patterns, Shape};
use super::machine::{Bound, Current, Flow, Machine, Out, Scope, Sees, up};
use super::{paths, special_forms};
use crate::jq::compile::library::format;
use crate::jq::syntax::ast::{Compare, Math, Missing};
use crate::jq::value::bounded::{self, Item};
use crate::jq::value::budget::{self, charge, grow};
use crate::jq::value::operators;
use crate::jq::value::runtime_error::{Stop, misfit, refuse, tell};
use crate::json::value::{self, Value};

impl<'c> Machine<'c> {
    /// Passes every output of a step to `out`.
    pub fn each<'e>(&self, node: &'c Node, sees: Sees<'c, 'e>, current: Current, out: Out<'_>) -> Flow {
        self.enter();
        if node.single && current.place.is_none() {
            let item = self.one(node, sees, current.item)?;
            return out(Current::of(item));
        }
        self.outputs(node, sees, current, out)
    }

    /// The output of a step that has exactly one.
    pub fn one<'e>(&self, node: &'c Node, sees: Sees<'c, 'e>, item: Item) -> Result<Item, Stop> {
        match &node.code {
            Code::Id => Ok(item),
            Code::Constant(value) => Ok(self.constant(value)),
            Code::Global(number) => Ok(self.outside.get(*number).cloned().unwrap_or(Item::null())),
            Code::Variable(by) => Ok(value(sees, *by)),
            _ => {
                self.enter();
                self.single(node, sees, item)
            }
        }
    }

    fn constant(&self, value: &Value) -> Item {
        Item::incoming(value.clone())
    }

    fn single<'e>(&self, node: &'c Node, sees: Sees<'c, 'e>, item: Item) -> Result<Item, Stop> {
        match &node.code {
            Code::Pipe(left, right) => {
                let item = self.one(left, sees, item)?;
                self.one(right, sees, item)
            }
            Code::Index(head, key, _) => {
                if let Code::Constant(key) = &key.code {
                    let found = self.one(head, sees, item)?;
                    return Ok(operators::index(&found, key)?);
                }
                let key = self.one(key, sees, item.clone())?;
                let found = self.one(head, sees, item)?;
                Ok(operators::index(&found, &key.value)?)
            }
            Code::Slice(head, from, to, _) => {
                let from = self.one(from, sees, item.clone())?;
                let to = self.one(to, sees, item.clone())?;
                let found = self.one(head, sees, item)?;
                Ok(operators::slice(&found, &from.value, &to.value)?)
            }
            Code::Math(left, math, right) => {
                let right = self.one(right, sees, item.clone())?;
                let left = self.one(left, sees, item)?;
                calculate(left, *math, right)
            }
            Code::Compare(left, compare, right) => {
                let right = self.one(right, sees, item.clone())?;
                let left = self.one(left, sees, item)?;
                Ok(holds(&left, *compare, &right).into())
            }
            Code::Object(entries) => {
                let mut made = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let key = match &key.code {
                        Code::Constant(key) => key.clone(),
                        _ => self.one(key, sees, item.clone())?.value,
                    };
                    made.push((key, self.one(value, sees, item.clone())?));
                }
                object(made)
            }
            Code::Text(steps) => {
                let mut text = Vec::new();
                // The last one is evaluated first, as everywhere in jq.
                for step in steps.iter().rev() {
                    text.push(self.one(step, sees, item.clone())?);
                }
                text.reverse();
                Ok(concatenate(&text))
            }
            Code::Native(native, arguments) => {
                let mut given = Vec::with_capacity(arguments.len());
                for argument in arguments.iter().rev() {
                    given.push(self.one(argument, sees, item.clone())?);
                }
                given.reverse();
                Ok(native(item, &given)?)
            }
            Code::Format(format, inner) => Ok(format::apply(*format, self.one(inner, sees, item)?)?),
            Code::Negate(inner) => Ok(operators::negate(self.one(inner, sees, item)?)?),
            Code::If(condition, then, otherwise) => {
                let branch = if self.one(condition, sees, item.clone())?.holds() { then } else { otherwise };
                self.one(branch, sees, item)
            }
            Code::Alternative(left, right) => {
                let found = self.one(left, sees, item.clone())?;
                if found.holds() { Ok(found) } else { self.one(right, sees, item) }
            }
            Code::Or(left, right) => {
                let found = self.one(left, sees, item.clone())?.holds() || self.one(right, sees, item)?.holds();
                Ok(found.into())
            }
            Code::And(left, right) => {
                let found = self.one(left, sees, item.clone())?.holds() && self.one(right, sees, item)?.holds();
                Ok(found.into())
            }
            Code::List(inner) => self.collect(inner, sees, item),
            Code::Update(paths, update) => {
                paths::update(self, paths, sees, item, &mut |old, out| self.each(update, sees, Current::of(old), out))
            }
            Code::Assign(paths, right) => {
                let right = Current::of(self.one(right, sees, item.clone())?);
                paths::update(self, paths, sees, item, &mut |_, out| out(right.clone()))
            }
            Code::UpdateMath(paths, math, right) => {
                let right = self.one(right, sees, item.clone())?;
                paths::update(self, paths, sees, item, &mut |old, out| {
                    out(Current::of(calculate(old, *math, right.clone())?))
                })
            }
            Code::UpdateAlternative(paths, right) => {
                let right = Current::of(self.one(right, sees, item.clone())?);
                paths::update(self, paths, sees, item, &mut |old, out| {
                    out(if old.holds() { Current::of(old) } else { right.clone() })
                })
            }
            _ => self.only(node, sees, item),
        }
    }

    /// The output of a step that has one, by the general way.
    fn only<'e>(&self, node: &'c Node, sees: Sees<'c, 'e>, item: Item) -> Result<Item, Stop> {
        let mut found = None;
        self.outputs(node, sees, Current::of(item), &mut |current| {
            found = Some(current.item);
            Ok(())
        })?;
        Ok(found.unwrap_or(Item::null()))
    }

    /// Every output, in a list.
    pub fn collect<'e>(&self, node: &'c Node, sees: Sees<'c, 'e>, item: Item) -> Result<Item, Stop> {
        let mut items = Vec::new();
        self.each(node, sees, Current::of(item), &mut |current| {
            charge(1);
            budget::push(&mut items, current.item);
            Ok(())
        })?;
        Ok(Item::list(items))
    }

    fn outputs<'e>(&self, node: &'c Node, sees: Sees<'c, 'e>, current: Current, out: Out<'_>) -> Flow {
        match &node.code {
            Code::Id => out(current),
            Code::Constant(value) => {
                let item = self.constant(value);
                out(current.with(item))
            }
            Code::Global(_) | Code::Variable(_) => {
                let Current { item, place } = current;
                let item = self.one(node, sees, item)?;
                out(Current { item, place })
            }
            Code::Pipe(left, right) => {
                self.each(left, sees, current, &mut |current| self.each(right, sees, current, out))
            }
            Code::Comma(left, right) => {
                self.each(left, sees, current.clone(), out)?;
                self.each(right, sees, current, out)
            }
            Code::Index(head, key, missing) => self.index(head, key, *missing, sees, current, out),
            Code::Slice(head, from, to, missing) => self.slice(head, (from, to), *missing, sees, current, out),
            Code::Each(head, missing) => match head.code {
                Code::Id => children(current, *missing, out),
                _ => self.each(head, sees, current, &mut |current| children(current, *missing, out)),
            },
            Code::Recurse => special_forms::descend(current, out),
            Code::Parameter(by) => match up(sees, *by).map(|scope| &scope.bound) {
                Some(Bound::Step(step, sees)) => self.each(step, *sees, current, out),
                _ => Ok(()),
            },
            Code::Call(id, by, arguments) => {
                let outer = by.and_then(|by| up(sees, by));
                self.call(*id, outer, sees, arguments, current, out)
            }
            Code::Form(form, arguments) => special_forms::run(self, *form, arguments, sees, current, out),
            Code::If(condition, then, otherwise) => {
                self.each(condition, sees, Current::of(current.item.clone()), &mut |found| {
                    let branch = if found.item.holds() { then } else { otherwise };
                    self.each(branch, sees, current.clone(), out)
                })
            }
            Code::Try(body, catch) => self.attempt(body, catch.as_deref(), sees, current, out),
            Code::Alternative(left, right) => {
                let mut found = false;
                self.each(left, sees, current.clone(), &mut |current| {
                    if !current.item.holds() {
                        return Ok(());
                    }
                    found = true;
                    out(current)
                })?;
                if found { Ok(()) } else { self.each(right, sees, current, out) }
            }
            Code::Label(body) => self.label(body, sees, current, out),
            Code::Break(by) => match up(sees, *by).map(|scope| &scope.bound) {
                Some(Bound::Label(label)) => Err(Stop::Break(*label)),
                _ => Ok(()),
            },
            Code::Bind(bind) => self.bind(bind, sees, current, out),
            Code::Fold(fold) => self.fold(fold, sees, current, out),
            _ => self.made(node, sees, current, out),
        }
    }

    /// The outputs of steps that make new values. These have no place.
    fn made<'e>(&self, node: &'c Node, sees: Sees<'c, 'e>, current: Current, out: Out<'_>) -> Flow {
        let Current { item, place } = current;
        let mut out = |item| out(Current { item, place: place.clone() });
        if node.single {
            let item = self.single(node, sees, item)?;
            return out(item);
        }
        match &node.code {
            Code::Math(left, math, right) => self.each(right, sees, Current::of(item.clone()), &mut |right| {
                self.each(left, sees, Current::of(item.clone()), &mut |left| {
                    out(calculate(left.item, *math, right.item.clone())?)
                })
            }),
            Code::Compare(left, compare, right) => self.each(right, sees, Current::of(item.clone()), &mut |right| {
                self.each(left, sees, Current::of(item.clone()), &mut |left| {
                    out(holds(&left.item, *compare, &right.item).into())
                })
            }),
            Code::Or(left, right) => self.each(left, sees, Current::of(item.clone()), &mut |left| {
                if left.item.holds() {
                    return out(true.into());
                }
                self.each(right, sees, Current::of(item.clone()), &mut |right| out(right.item.holds().into()))
            }),
            Code::And(left, right) => self.each(left, sees, Current::of(item.clone()), &mut |left| {
                if !left.item.holds() {
                    return out(false.into());
                }
                self.each(right, sees, Current::of(item.clone()), &mut |right| out(right.item.holds().into()))
            }),
            Code::Negate(inner) => {
                self.each(inner, sees, Current::of(item), &mut |inner| out(operators::negate(inner.item)?))
            }
            Code::Format(format, inner) => {
                self.each(inner, sees, Current::of(item), &mut |inner| out(format::apply(*format, inner.item)?))
            }
            Code::Text(steps) => self.texts(steps, &[], sees, &item, &mut out),
            Code::Object(entries) => self.objects(entries, &mut Vec::new(), sees, &item, &mut out),
            Code::Native(native, arguments) => self.native(*native, arguments, &mut Vec::new(), sees, &item, &mut out),
            Code::Assign(paths, right) => self.each(right, sees, Current::of(item.clone()), &mut |right| {
                out(paths::update(self, paths, sees, item.clone(), &mut |_, out| out(right.clone()))?)
            }),
            Code::UpdateMath(paths, math, right) => self.each(right, sees, Current::of(item.clone()), &mut |right| {
                out(paths::update(self, paths, sees, item.clone(), &mut |old, out| {
                    out(Current::of(calculate(old, *math, right.item.clone())?))
                })?)
            }),
            Code::UpdateAlternative(paths, right) => self.each(right, sees, Current::of(item.clone()), &mut |right| {
                out(paths::update(self, paths, sees, item.clone(), &mut |old, out| {
                    out(if old.holds() { Current::of(old) } else { right.clone() })
                })?)
            }),
            // The other functions handle all other codes.
            _ => Ok(()),
        }
    }

    fn call<'e>(
        &self,
        id: usize,
        outer: Sees<'c, 'e>,
        sees: Sees<'c, 'e>,
        arguments: &'c [Node],
        current: Current,
        out: Out<'_>,
    ) -> Flow {
        match arguments.split_first() {
            None => self.each(&self.functions[id].body, outer, current, out),
            Some((first, rest)) => {
                let bound = match (&first.code, sees) {
                    // A parameter that is passed on keeps its own scope.
                    (Code::Parameter(by), sees) => match up(sees, *by).map(|scope| &scope.bound) {
                        Some(Bound::Step(step, sees)) => Bound::Step(step, *sees),
                        _ => Bound::Step(first, sees),
                    },
                    _ => Bound::Step(first, sees),
                };
                let scope = Scope { outer, bound };
                self.call(id, Some(&scope), sees, rest, current, out)
            }
        }
    }

    fn attempt<'e>(
        &self,
        body: &'c Node,
        catch: Option<&'c Node>,
        sees: Sees<'c, 'e>,
        current: Current,
        out: Out<'_>,
    ) -> Flow {
        let place = current.place.clone();
        // A failure after the step is not an error of the step.
        let mut behind = false;
        let flow = self.each(body, sees, current, &mut |current| {
            let flow = out(current);
            behind |= flow.is_err();
            flow
        });
        match flow {
            Err(Stop::Fault(fault)) if !behind => match catch {
                None => Ok(()),
                Some(catch) => self.each(catch, sees, Current { item: fault.value, place }, out),
            },
            flow => flow,
        }
    }

    fn label<'e>(&self, body: &'c Node, sees: Sees<'c, 'e>, current: Current, out: Out<'_>) -> Flow {
        let label = self.labels.get();
        self.labels.set(label + 1);
        let scope = Scope { outer: sees, bound: Bound::Label(label) };
        match self.each(body, Some(&scope), current, out) {
            Err(Stop::Break(found)) if found == label => Ok(()),
            flow => flow,
        }
    }

    /// A new label for the caller.
    pub fn mark(&self) -> usize {
        let label = self.labels.get();
        self.labels.set(label + 1);
        label
    }

    fn index<'e>(
        &self,
        head: &'c Node,
        key: &'c Node,
        missing: Missing,
        sees: Sees<'c, 'e>,
        current: Current,
        out: Out<'_>,
    ) -> Flow {
        if let Code::Constant(key) = &key.code {
            return match head.code {
                Code::Id => part(current, key, missing, out),
                _ => self.each(head, sees, current, &mut |current| part(current, key, missing, out)),
            };
        }
        self.each(key, sees, Current::of(current.item.clone()), &mut |key| {
            self.each(head, sees, current.clone(), &mut |current| part(current, &key.item.value, missing, out))
        })
    }

    fn slice<'e>(
        &self,
        head: &'c Node,
        (from, to): (&'c Node, &'c Node),
        missing: Missing,
        sees: Sees<'c, 'e>,
        current: Current,
        out: Out<'_>,
    ) -> Flow {
        self.each(from, sees, Current::of(current.item.clone()), &mut |from| {
            self.each(to, sees, Current::of(current.item.clone()), &mut |to| {
                let key = operators::slice_key(from.item.value.clone(), to.item.value);
                self.each(head, sees, current.clone(), &mut |current| part(current, &key, missing, out))
            })
        })
    }

    fn texts<'e>(
        &self,
        steps: &'c [Node],
        after: &[Item],
        sees: Sees<'c, 'e>,
        item: &Item,
        out: &mut dyn FnMut(Item) -> Flow,
    ) -> Flow {
        let Some((last, before)) = steps.split_last() else {
            let mut text = after.to_vec();
            text.reverse();
            return out(concatenate(&text));
        };
        self.each(last, sees, Current::of(item.clone()), &mut |current| {
            let mut after = after.to_vec();
            after.push(current.item);
            self.texts(before, &after, sees, item, out)
        })
    }

    fn objects<'e>(
        &self,
        entries: &'c [(Node, Node)],
        made: &mut Vec<(Value, Item)>,
        sees: Sees<'c, 'e>,
        item: &Item,
        out: &mut dyn FnMut(Item) -> Flow,
    ) -> Flow {
        let Some(((key, value), rest)) = entries.split_first() else { return out(object(made.clone())?) };
        self.each(key, sees, Current::of(item.clone()), &mut |key| {
            self.each(value, sees, Current::of(item.clone()), &mut |value| {
                made.push((key.item.value.clone(), value.item));
                let flow = self.objects(rest, made, sees, item, out);
                made.pop();
                flow
            })
        })
    }

    /// Calls a function with every combination of its arguments. The last argument changes slowest.
    fn native<'e>(
        &self,
        native: Native,
        arguments: &'c [Node],
        given: &mut Vec<Item>,
        sees: Sees<'c, 'e>,
        item: &Item,
        out: &mut dyn FnMut(Item) -> Flow,
    ) -> Flow {
        let Some((last, before)) = arguments.split_last() else {
            let given: Vec<Item> = given.iter().rev().cloned().collect();
            return out(native(item.clone(), &given)?);
        };
        self.each(last, sees, Current::of(item.clone()), &mut |current| {
            given.push(current.item);
            let flow = self.native(native, before, given, sees, item, out);
            given.pop();
            flow
        })
    }

    fn bind<'e>(&self, bind: &'c Bind, sees: Sees<'c, 'e>, current: Current, out: Out<'_>) -> Flow {
        let input = current.item.clone();
        self.each(&bind.source, sees, Current::of(input), &mut |found| {
            self.unpack(&bind.patterns, found.item, sees, &mut |sees| self.each(&bind.body, sees, current.clone(), out))
        })
    }

    /// Matches a value with each pattern that fits, and runs `then` with the variables of the pattern.
    fn unpack<'e>(
        &self,
        patterns: &'c Patterns,
        item: Item,
        sees: Sees<'c, 'e>,
        then: &mut dyn FnMut(Sees<'c, '_>) -> Flow,
    ) -> Flow {
        if let (Shape::Variable, []) = (&patterns.first, patterns.others.as_slice()) {
            return then(Some(&Scope { outer: sees, bound: Bound::Value(item) }));
        }
        if patterns.others.is_empty() {
            return self.shape(&Todo::Shape(&patterns.first, item, &Todo::Done), sees, then);
        }
        let mut failed = None;
        for (shape, places) in std::iter::once(&patterns.first).chain(&patterns.others).zip(&patterns.places) {
            let flow = self.shape(&Todo::Shape(shape, item.clone(), &Todo::Done), sees, &mut |own| {
                let values = places.iter().map(|place| place.map_or(Item::null(), |place| since(sees, own, place)));
                let values: Vec<Item> = values.collect();
                rebind(&values, sees, then)
            });
            match flow {
                Err(Stop::Fault(fault)) => failed = Some(fault),
                flow => return flow,
            }
        }
        failed.map_or(Ok(()), |fault| Err(Stop::Fault(fault)))
    }

    fn shape(&self, todo: &Todo<'c, '_>, sees: Sees<'c, '_>, then: &mut dyn FnMut(Sees<'c, '_>) -> Flow) -> Flow {
        charge(1);
        match todo {
            Todo::Done => then(sees),
            Todo::Shape(Shape::Variable, item, rest) => {
                self.shape(rest, Some(&Scope { outer: sees, bound: Bound::Value(item.clone()) }), then)
            }
            Todo::Shape(Shape::List(shapes), item, rest) => {
                // jq reads the last index first, and reports the error of that one.
                operators::index(item, &Value::from(shapes.len() - 1))?;
                self.shape(&Todo::Places(shapes, 0, item.clone(), rest), sees, then)
            }
            Todo::Shape(Shape::Object(entries), item, rest) => {
                self.shape(&Todo::Entries(entries, item.clone(), rest), sees, then)
            }
            Todo::Places(shapes, at, item, rest) => {
                let Some((first, more)) = shapes.split_first() else { return self.shape(rest, sees, then) };
                let found = operators::index(item, &Value::from(*at))?;
                let more = Todo::Places(more, at + 1, item.clone(), rest);
                self.shape(&Todo::Shape(first, found, &more), sees, then)
            }
            Todo::Entries(entries, item, rest) => {
                let Some((first, more)) = entries.split_first() else { return self.shape(rest, sees, then) };
                let more = Todo::Entries(more, item.clone(), rest);
                self.each(&first.key, sees, Current::of(item.clone()), &mut |key| {
                    if !matches!(key.item.value, Value::Text(_)) {
                        return Err(misfit(&item.value, &key.item.value).into());
                    }
                    let found = operators::index(item, &key.item.value)?;
                    let bound = Scope { outer: sees, bound: Bound::Value(found.clone()) };
                    let sees = if first.bound { Some(&bound) } else { sees };
                    match &first.inner {
                        Some(inner) => self.shape(&Todo::Shape(inner, found, &more), sees, then),
                        None => self.shape(&more, sees, then),
                    }
                })
            }
        }
    }

    fn fold<'e>(&self, fold: &'c Fold, sees: Sees<'c, 'e>, current: Current, out: Out<'_>) -> Flow {
        let input = Current::of(current.item.clone());
        self.each(&fold.start, sees, input, &mut |start| {
            let mut state = start.item;
            self.each(&fold.source, sees, current.clone(), &mut |found| {
                let place = found.place;
                self.unpack(&fold.patterns, found.item, sees, &mut |sees| {
                    // An update without output leaves null, as in jq.
                    let item = std::mem::replace(&mut state, Item::null());
                    if !fold.each && place.is_none() && fold.update.single {
                        state = self.one(&fold.update, sees, item)?;
                        return Ok(());
                    }
                    let current = Current { item, place: place.clone() };
                    self.each(&fold.update, sees, current, &mut |new| {
                        if !fold.each {
                            state = new.item;
                            return Ok(());
                        }
                        state = new.item.clone();
                        match &fold.extract {
                            Some(extract) => self.each(extract, sees, new, out),
                            None => out(new),
                        }
                    })
                })
            })?;
            if fold.each { Ok(()) } else { out(Current { item: state, place: current.place.clone() }) }
        })
    }
}

/// The rest of a value to match.
enum Todo<'c, 't> {
    Done,
    Shape(&'c Shape, Item, &'t Todo<'c, 't>),
    Places(&'c [Shape], usize, Item, &'t Todo<'c, 't>),
    Entries(&'c [Entry], Item, &'t Todo<'c, 't>),
}

fn value(sees: Sees<'_, '_>, by: usize) -> Item {
    match up(sees, by).map(|scope| &scope.bound) {
        Some(Bound::Value(item)) => item.clone(),
        _ => Item::null(),
    }
}

/// The value that was bound this many positions after the first one since `outer`.
fn since(outer: Sees<'_, '_>, own: Sees<'_, '_>, place: usize) -> Item {
    let mut values = Vec::new();
    let mut at = own;
    while let Some(scope) = at {
        if outer.is_some_and(|outer| std::ptr::addr_eq(outer, scope)) {
            break;
        }
        values.push(scope);
        at = scope.outer;
    }
    match values.iter().rev().nth(place).map(|scope| &scope.bound) {
        Some(Bound::Value(item)) => item.clone(),
        _ => Item::null(),
    }
}

/// Runs `then` with these values bound.
fn rebind<'c>(values: &[Item], sees: Sees<'c, '_>, then: &mut dyn FnMut(Sees<'c, '_>) -> Flow) -> Flow {
    match values.split_first() {
        None => then(sees),
        Some((first, rest)) => rebind(rest, Some(&Scope { outer: sees, bound: Bound::Value(first.clone()) }), then),
    }
}

fn calculate(left: Item, math: Math, right: Item) -> Result<Item, Stop> {
    let found = match math {
        Math::Add => operators::add(left, right),
        Math::Subtract => operators::subtract(left, right),
        Math::Multiply => operators::multiply(left, right),
        Math::Divide => operators::divide(left, right),
        Math::Remainder => operators::remainder(left, right),
    };
    Ok(found?)
}

fn holds(left: &Item, compare: Compare, right: &Item) -> bool {
    let order = || operators::compare(&left.value, &right.value);
    match compare {
        Compare::Equal => operators::same(&left.value, &right.value),
        Compare::Unequal => !operators::same(&left.value, &right.value),
        Compare::Less => order().is_lt(),
        Compare::LessEqual => order().is_le(),
        Compare::Greater => order().is_gt(),
        Compare::GreaterEqual => order().is_ge(),
    }
}

fn object(entries: Vec<(Value, Item)>) -> Result<Item, Stop> {
    grow(bounded::OBJECT);
    let mut fields = value::Fields::default();
    let mut depth = 0;
    for (key, item) in entries {
        let Value::Text(name) = &key else {
            return refuse("Cannot use ^ as object key", &[&key]).map_err(Stop::from);
        };
        charge(1 + name.len() / 64);
        grow(bounded::field(&item.value));
        depth = depth.max(item.depth());
        fields.insert(key, item.value);
    }
    Ok(Item::made(value::fields_of(fields), depth))
}

fn concatenate(parts: &[Item]) -> Item {
    let text = |item: &Item| match &item.value {
        Value::Text(text) => text.len(),
        _ => 0,
    };
    let length = parts.iter().map(text).sum();
    budget::text(length);
    let mut out = Vec::with_capacity(length);
    for part in parts {
        if let Value::Text(text) = &part.value {
            out.extend_from_slice(text);
        }
    }
    Item::bounded(value::text(out), 0)
}

/// A part of a value.
fn part(current: Current, key: &Value, missing: Missing, out: Out<'_>) -> Flow {
    if !current.stands() {
        let value = &current.item.value;
        return Err(tell("Invalid path expression near attempt to access element @ of @", &[key, value]).into());
    }
    let found = match operators::index(&current.item, key) {
        Ok(found) => found,
        Err(_) if missing == Missing::Skipped => return Ok(()),
        Err(fault) => return Err(fault.into()),
    };
    let place = match current.place {
        Some(place) => Some(place.part(key.clone(), found.value.clone())?),
        None => None,
    };
    drop(current.item);
    out(Current { item: found, place })
}

/// The items of a list or the values of an object.
fn children(current: Current, missing: Missing, out: Out<'_>) -> Flow {
    if !current.stands() {
        return Err(tell("Invalid path expression near attempt to iterate through @", &[&current.item.value]).into());
    }
    let children = match operators::children(&current.item) {
        Ok(children) => children,
        Err(_) if missing == Missing::Skipped => return Ok(()),
        Err(fault) => return Err(fault.into()),
    };
    let place = current.place;
    drop(current.item);
    for (key, item) in children {
        let place = match &place {
            Some(place) => Some(place.clone().part(key, item.value.clone())?),
            None => None,
        };
        out(Current { item, place })?;
    }
    Ok(())
}
