//! Parts of the engine for the gateway's own crate, **without any promise**: they change or vanish in any version, also in a
//! patch. The changelog does not tell of it.
//!
//! A program that needs something from here is welcome to say so in an issue: it then gets a place in the stable interface.
//!
macro_rules! floors {
    ($($(#[$feature:meta])? $floor:ident)*) => {
        $(
            #[doc = concat!("The floor `", stringify!($floor), "` of ARCHITECTURE.md.")]
            #[cfg_attr(doc, doc(hidden))]
            $(#[$feature])?
            pub mod $floor {
                pub use crate::$floor::*;
            }
        )*
    };
}

floors! {
    cache
    config
    #[cfg(feature = "postgres")]
    database
    error
    format
    http
    hypermedia
    jq
    json
    message
    net
    offload
    pipeline
    request
    resilience
    runtime
    telemetry
    template
    upstream
}

#[cfg_attr(doc, doc(hidden))]
pub use crocodile_pear_spec::{choice, spec};
