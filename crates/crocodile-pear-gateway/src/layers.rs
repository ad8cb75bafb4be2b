//! The layers: one file each, and two lines here.

pub mod adapt;
pub mod addresses;
pub mod allow;
pub mod analytics;
pub mod authenticate;
pub mod body;
pub mod cache;
pub mod compress;
pub mod consumer_limit;
pub mod cors;
pub mod deadline;
pub mod headers;
pub mod in_flight;
pub mod observe;
pub mod purge;
pub mod rate_limit;
pub mod timing;
pub mod validate;
pub mod version;

use std::marker::PhantomData;
use std::sync::Arc;

use crocodile_pear::problem::Problems;
use crocodile_pear::spec::{Decode, Definitions, Field, Fields, Group, Json, Node, Property};

use crate::layer::{Around, Compile, Spec};
use crate::stack::Stack;

/// Declares the layers, from the outside in.
macro_rules! layers {
    ($($name:ident: $spec:ident),* $(,)?) => {
        /// What is written of the layers in one place.
        #[derive(Clone, Debug)]
        pub struct Layers<P> {
            $(#[doc = concat!("`", stringify!($name), "`")] pub $name: Option<Setting<$name::$spec>>,)*
            place: PhantomData<P>,
        }

        impl<P: Place> Group for Layers<P> {
            fn known() -> Vec<Field> {
                [$(P::field::<$name::$spec>()),*].into_iter().flatten().collect()
            }

            fn read(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Self> {
                // All are read before one that failed ends it, so that every problem is found.
                $(let $name = P::read::<$name::$spec>(fields, problems);)*
                Some(Layers { $($name: $name?,)* place: PhantomData })
            }

            fn properties() -> Vec<Property> {
                [$(P::field::<$name::$spec>().map(|_| property::<$name::$spec>())),*].into_iter().flatten().collect()
            }
        }

        impl<P: Place> Layers<P> {
            /// What can be read of a place with faults.
            pub fn partial(node: &Node) -> Self {
                Layers { $($name: P::partial::<$name::$spec>(node),)* place: PhantomData }
            }
        }

        impl<P> Default for Layers<P> {
            fn default() -> Self {
                Layers { $($name: None,)* place: PhantomData }
            }
        }

        impl Layers<AtDocument> {
            /// Makes ready what is written for all.
            pub fn compile(&self, cx: &mut Compile<'_>) -> Shared {
                $(let $name = shared(self.$name.as_ref(), cx);)*
                Shared { $($name,)* names_route: cx.names_route }
            }
        }

        /// The layers that hold at one place, ready.
        pub struct Shared {
            $($name: Holds<<$name::$spec as Spec>::Ready>,)*
            names_route: bool,
        }

        impl Shared {
            /// What holds further in, where some are written anew.
            pub fn within<P: Place>(&self, own: &Layers<P>, cx: &mut Compile<'_>) -> Shared {
                $(let $name = inner::<P, _, _>(&self.$name, own.$name.as_ref(), cx);)*
                Shared { $($name,)* names_route: self.names_route || cx.names_route }
            }

            /// The layers around an endpoint, or around all that no endpoint serves.
            pub fn around(&self, at: &Around<'_>) -> Stack {
                let mut stack = Stack::default();
                $(
                    let ready = self.$name.as_ref().and_then(Option::as_ref);
                    let around = ready.and_then(|ready| <$name::$spec as Spec>::around(ready, at));
                    around.into_iter().for_each(|layer| stack.push(stringify!($name), layer));
                )*
                stack.names_route = self.names_route;
                stack
            }
        }
    };
}

// From the outside in. A new layer takes the place where its reason holds.
layers! {
    // It sees every answer, the refusals too, and the true end.
    observe: Log,
    // It sees them too.
    analytics: Analytics,
    // Nothing behind it outlives it.
    deadline: Deadline,
    // Every answer that leaves has these fields, whoever gave it.
    headers: Headers,
    // What answers say of their version stands on refusals too, and the layers behind it know which it is.
    version: Version,
    // A preflight has no credentials, and the refusals of those behind it can be read by pages.
    cors: Cors,
    // The cheapest refusal.
    addresses: Addresses,
    // It asks for no credentials but the address.
    purge: PurgeSpec,
    // Before anything that computes: the limits that need no `$claims`.
    rate_limit: RateLimits,
    // Those behind it that read a body read no more than this.
    body: MaxBody,
    // Before anything that is done for clients: it says who they are.
    authenticate: Authenticate,
    // The consumer is known: the limits that use `$claims`.
    consumer_limit: ConsumerLimits,
    // It holds its slot until the answer has ended: only for those who may come in otherwise.
    in_flight: InFlight,
    // It asks who the client is.
    allow: Allow,
    // Only those who may are worth the work, and those behind it see requests as the newest version has them. Answers are
    // changed at the end of the pipeline: compressed and stored is what the client gets.
    adapt: Adapt,
    // What the pipeline gets is valid, also where an older version was made into it.
    validate: Validate,
    // What a layer further in has is plain, and is compressed for each client in its own way. Of what caches keep, each coding is
    // made once.
    compress: Compress,
    // The timers are those of the pipeline alone.
    timing: Timing,
    // Last before the work that it saves.
    cache: Caching,
}

/// What is written of a layer.
#[derive(Clone, Debug)]
pub enum Setting<T> {
    /// It is not there.
    Off,
    /// It is, like this.
    On(T),
}

impl<T> Setting<T> {
    /// The layer, if it is there.
    pub fn on(&self) -> Option<&T> {
        match self {
            Setting::Off => None,
            Setting::On(spec) => Some(spec),
        }
    }
}

impl<T: Spec> Decode for Setting<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_plain() {
            Some("off" | "false") if inherited::<T>() => Some(Setting::Off),
            _ => T::decode(node, problems).map(Setting::On),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let schema = T::schema(definitions);
        if !inherited::<T>() {
            return schema;
        }
        serde_json::json!({ "anyOf": [{ "const": "off" }, schema] })
    }
}

/// Whether an endpoint may have this layer from the document, and so may have to be without it.
fn inherited<T: Spec>() -> bool {
    T::AT_DOCUMENT.is_some() && T::AT_ENDPOINT.is_some()
}

/// Where layers are written.
pub trait Place {
    /// Whether none are written further in.
    const INNERMOST: bool = false;

    /// The field of a layer here.
    fn field<T: Spec>() -> Option<Field>;

    /// Reads it.
    fn read<T: Spec>(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Option<Setting<T>>> {
        Self::field::<T>().map_or(Some(None), |field| fields.read(field.name, problems))
    }

    /// What can be read of it.
    fn partial<T: Spec>(node: &Node) -> Option<Setting<T>> {
        let field = Self::field::<T>()?;
        let (_, written) = node.as_map()?.iter().find(|(key, _)| key.value == field.name)?;
        Decode::decode(written, &mut Problems::default())
    }
}

/// At the document.
#[derive(Clone, Copy, Debug)]
pub struct AtDocument;

impl Place for AtDocument {
    fn field<T: Spec>() -> Option<Field> {
        T::AT_DOCUMENT
    }
}

/// At a group of endpoints.
#[derive(Clone, Copy, Debug)]
pub struct AtGroup;

impl Place for AtGroup {
    fn field<T: Spec>() -> Option<Field> {
        T::AT_ENDPOINT
    }
}

/// At an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct AtEndpoint;

impl Place for AtEndpoint {
    const INNERMOST: bool = true;

    fn field<T: Spec>() -> Option<Field> {
        T::AT_ENDPOINT
    }
}

fn property<T: Spec>() -> Property {
    let default = T::unwritten().and_then(|spec| spec.written());
    Property { schema: Setting::<T>::schema, optional: true, default }
}

/// What holds of a layer at one place: nothing, while nobody has said whether it is there; then the layer, if it is.
type Holds<R> = Option<Option<Arc<R>>>;

fn shared<T: Spec>(written: Option<&Setting<T>>, cx: &mut Compile<'_>) -> Holds<T::Ready> {
    match written {
        Some(setting) => Some(ready(setting, cx)),
        // What can be written at endpoints alone is nothing to the others.
        None if T::AT_DOCUMENT.is_none() && T::AT_ENDPOINT.is_some() => None,
        None => Some(T::unwritten().and_then(|spec| spec.compile(cx))),
    }
}

fn inner<P: Place, T: Spec<Ready = R>, R>(
    outer: &Holds<R>,
    own: Option<&Setting<T>>,
    cx: &mut Compile<'_>,
) -> Holds<R> {
    match (own, outer) {
        (Some(setting), _) => Some(ready(setting, cx)),
        (None, None) if P::INNERMOST => Some(T::unwritten().and_then(|spec| spec.compile(cx))),
        (None, outer) => outer.clone(),
    }
}

fn ready<T: Spec>(setting: &Setting<T>, cx: &mut Compile<'_>) -> Option<Arc<T::Ready>> {
    setting.on()?.compile(cx)
}
