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
pub mod files;
pub mod grpc_web;
pub mod headers;
pub mod in_flight;
pub mod metering;
pub mod observe;
pub mod purge;
pub mod quota;
pub mod rate_limit;
pub mod timing;
pub mod validate;
pub mod version;

use std::marker::PhantomData;
use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Fields, Group, Json, Node, PropertySchema};

use crate::config::mended;
use crate::layer::stack::Stack;
use crate::layer::{Compile, LayerPosition, Spec};
use crate::layers::cache::CompiledCache;

/// Declares the layers, from the outside in.
macro_rules! layers {
    ($($name:ident: $spec:ident),* $(,)?) => {
        /// The layers written in one place.
        #[derive(Clone, Debug)]
        pub struct Layers<P> {
            $(#[doc = concat!("`", stringify!($name), "`")] pub $name: Option<Setting<$name::$spec>>,)*
            place: PhantomData<P>,
        }

        impl<P: LayerPlace> Group for Layers<P> {
            fn known() -> Vec<Field> {
                [$(P::field::<$name::$spec>()),*].into_iter().flatten().collect()
            }

            fn read(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Self> {
                // Reads all fields before returning an error, so that every problem is found.
                $(let $name = P::read::<$name::$spec>(fields, problems);)*
                Some(Layers { $($name: $name?,)* place: PhantomData })
            }

            fn properties() -> Vec<PropertySchema> {
                [$(P::field::<$name::$spec>().map(|_| property::<$name::$spec>())),*].into_iter().flatten().collect()
            }
        }

        impl<P: LayerPlace> Layers<P> {
            /// The layers that are written here.
            pub fn written(&self) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name.is_some())),*];
                all.into_iter().filter(|(_, written)| *written).map(|(name, _)| name).collect()
            }

            /// The field of a layer.
            pub fn field_of(layer: &str) -> Option<&'static str> {
                let all = [$((stringify!($name), P::field::<$name::$spec>())),*];
                all.into_iter().find(|(name, _)| *name == layer).and_then(|(_, field)| field).map(|field| field.name)
            }

            /// The readable settings of a place that has errors.
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
            /// Compiles the layers of the document.
            pub fn compile(&self, cx: &mut Compile<'_>) -> Shared {
                $(let $name = shared(self.$name.as_ref(), cx);)*
                Shared { $($name,)* names_route: cx.names_route }
            }
        }

        /// The compiled layers that apply at one place.
        pub struct Shared {
            $($name: Holds<<$name::$spec as Spec>::Ready>,)*
            names_route: bool,
        }

        impl Shared {
            /// The layers that apply further in, where some are written again.
            pub fn within<P: LayerPlace>(&self, own: &Layers<P>, cx: &mut Compile<'_>) -> Shared {
                $(let $name = inner::<P, _, _>(&self.$name, own.$name.as_ref(), cx);)*
                Shared { $($name,)* names_route: self.names_route || cx.names_route }
            }

            /// The layers around an endpoint, or around requests that no endpoint serves.
            pub fn around(&self, at: &mut LayerPosition<'_>) -> Stack {
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

// From the outside in. Each layer says why it is at its place.
layers! {
    // Sees every answer, also refusals, and how it really ended.
    observe: Log,
    // The same.
    analytics: Analytics,
    // Everything further in must end by the deadline.
    deadline: Deadline,
    // Adds its fields to every answer, whichever layer gave it.
    headers: Headers,
    // Adds the fields of the version to refusals too, and tells the layers further in which version it is.
    version: Version,
    // A preflight has no credentials, so it must come before they are checked. Pages must be able to read the refusals
    // of layers further in.
    cors: Cors,
    // Browsers read the refusals of layers further in as statuses of gRPC. Layers further in see plain gRPC.
    grpc_web: GrpcWeb,
    // The cheapest refusal.
    addresses: Addresses,
    // Checks no credentials but the address.
    purge: PurgeSpec,
    // Limits that do not use `$claims`: before any expensive work.
    rate_limit: RateLimits,
    // Bounds the bodies that layers further in read.
    body: MaxBody,
    // Says who the client is, before any work is done for it.
    authenticate: Authenticate,
    // Limits that use `$claims`: the consumer is known now.
    consumer_limit: ConsumerLimits,
    // Counts what passes the limits of rates.
    quota: Quotas,
    // Holds its slot until the answer ends, so only for clients that are allowed in by the limits.
    in_flight: InFlight,
    // Needs to know who the client is.
    allow: Allow,
    // Only for clients that are allowed in. Layers further in see requests in the newest version. Answers are changed
    // at the end of the pipeline, so that compression and caches get what the client gets.
    adapt: Adapt,
    // Checks what the pipeline gets, after a request of an older version was changed.
    validate: Validate,
    // Layers further in see plain answers; each client gets the coding it asks for. Answers from a cache are compressed
    // once for each coding.
    compress: Compress,
    // Sees answers before they are compressed, also those from a cache.
    metering: Metering,
    // Reports the timers of the pipeline only.
    timing: Timing,
    // Stands for the pipeline where there is a file. Further out, its answers are compressed.
    files: Files,
    // Last, right before the work that it saves: it is no layer, but where the answers of an endpoint come from.
    cache: EndpointCacheSpec,
}

impl Shared {
    /// The cache of endpoints, if there is one.
    pub fn cache(&self) -> Option<&Arc<CompiledCache>> {
        self.cache.as_ref()?.as_ref()
    }
}

impl<P> Layers<P> {
    /// Whether clients are authenticated, if that is written here.
    pub fn authenticates(&self) -> Option<bool> {
        self.authenticate.as_ref().map(|setting| setting.on().is_some_and(|spec| !spec.is_open()))
    }
}

/// A layer as written.
#[derive(Clone, Debug)]
pub enum Setting<T> {
    /// Switched off.
    Off,
    /// Switched on, with these settings.
    On(T),
}

impl<T> Setting<T> {
    /// The settings, unless it is off.
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
        if inherited::<T>() { off_or(schema) } else { schema }
    }
}

fn off_or(schema: Json) -> Json {
    serde_json::json!({ "anyOf": [{ "const": "off" }, schema] })
}

/// Whether an endpoint may inherit this layer from the document, and so needs `off`.
fn inherited<T: Spec>() -> bool {
    T::AT_DOCUMENT.is_some() && T::AT_ENDPOINT.is_some()
}

/// A place where layers can be written.
pub trait LayerPlace {
    const INNERMOST: bool = false;

    /// The field of a layer at this place.
    fn field<T: Spec>() -> Option<Field>;

    /// Reads a layer.
    fn read<T: Spec>(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Option<Setting<T>>> {
        Self::field::<T>().map_or(Some(None), |field| fields.read(field.name, problems))
    }

    /// The readable part of a layer that has errors.
    fn partial<T: Spec>(node: &Node) -> Option<Setting<T>> {
        let field = Self::field::<T>()?;
        mended(node.field(field.name)?)
    }
}

/// At the top of the document.
#[derive(Clone, Copy, Debug)]
pub struct AtDocument;

impl LayerPlace for AtDocument {
    fn field<T: Spec>() -> Option<Field> {
        T::AT_DOCUMENT
    }
}

/// At a group of endpoints.
#[derive(Clone, Copy, Debug)]
pub struct AtGroup;

impl LayerPlace for AtGroup {
    fn field<T: Spec>() -> Option<Field> {
        T::AT_ENDPOINT
    }
}

#[derive(Clone, Copy, Debug)]
pub struct AtEndpoint;

impl LayerPlace for AtEndpoint {
    const INNERMOST: bool = true;

    fn field<T: Spec>() -> Option<Field> {
        T::AT_ENDPOINT
    }
}

fn property<T: Spec>() -> PropertySchema {
    let default = T::unwritten().and_then(|spec| spec.written());
    PropertySchema { schema: Setting::<T>::schema, optional: true, default }
}

/// The layer that applies at one place: `None` if nothing is written or implied; `Some(None)` if it is off; else the
/// layer.
type Holds<R> = Option<Option<Arc<R>>>;

fn shared<T: Spec>(written: Option<&Setting<T>>, cx: &mut Compile<'_>) -> Holds<T::Ready> {
    match written {
        Some(setting) => Some(ready(setting, cx)),
        // Fields that exist only at endpoints mean nothing at the other places.
        None if T::AT_DOCUMENT.is_none() && T::AT_ENDPOINT.is_some() => None,
        None => Some(T::unwritten().and_then(|spec| spec.compile(cx))),
    }
}

fn inner<P: LayerPlace, T: Spec<Ready = R>, R>(
    outer: &Holds<R>,
    own: Option<&Setting<T>>,
    cx: &mut Compile<'_>,
) -> Holds<R> {
    match (own, outer) {
        (Some(setting), Some(Some(outer))) => Some(setting.on().and_then(|spec| spec.compile_within(outer, cx))),
        (Some(setting), _) => Some(ready(setting, cx)),
        (None, None) if P::INNERMOST => Some(T::unwritten().and_then(|spec| spec.compile(cx))),
        (None, outer) => outer.clone(),
    }
}

fn ready<T: Spec>(setting: &Setting<T>, cx: &mut Compile<'_>) -> Option<Arc<T::Ready>> {
    setting.on()?.compile(cx)
}
