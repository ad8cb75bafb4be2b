//! Whether answers that point into an upstream point to the gateway instead.

crate::choice! {
    /// Whether header fields that point into the upstream point to the gateway instead.
    pub enum RewriteSpec {
        /// Rewrite them, if the endpoint has a path for the target.
        On = "on",
        /// Leave them unchanged.
        Off = "off",
    }
}
