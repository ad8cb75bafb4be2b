//! `first`: keeps the first items.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures_util::StreamExt;

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Json, Node};
use crate::pipeline::flow::Flow;
use crate::pipeline::step::{Compile, ReadyStep, Shape, Spec};
use crate::request::context::Scope;

/// How many items are kept.
#[derive(Clone, Debug)]
pub struct First(NonZeroUsize);

impl Decode for First {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        NonZeroUsize::decode(node, problems).map(First)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let mut schema = NonZeroUsize::schema(definitions);
        schema["description"] =
            "Keeps so many items, in the order of their calls; the other calls are not made.".into();
        schema
    }
}

impl Spec for First {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let most = self.0.get() as u64;
        if let Shape::Many(before) = cx.flow.shape {
            cx.flow.shape = Shape::Many(before.min(most));
        }
        cx.explain(format!("keep the first {most}"), None, 0);
        Some(Arc::new(self))
    }
}

impl ReadyStep for First {
    fn run(self: Arc<Self>, flow: Flow, _: &Arc<Scope>) -> Flow {
        let at_once = flow.at_once().min(self.0.get());
        Flow::stream(flow.take(self.0.get()), at_once)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::message::body::AnswerBody;
    use crate::pipeline::flow::{Awaited, Producer};

    #[tokio::test]
    async fn what_is_not_kept_is_not_called() {
        let never = |id| Producer { id, name: None, outcome: Awaited::later(async { panic!("a call was made") }) };
        let scope = Arc::new(Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty()));
        let two = Arc::new(First(NonZeroUsize::new(2).expect("more than none")));
        let kept: Vec<Producer> = two.run(Flow::of((0..5).map(never).collect()), &scope).collect().await;
        assert_eq!(kept.iter().map(|kept| kept.id).collect::<Vec<_>>(), [0, 1]);
    }
}
