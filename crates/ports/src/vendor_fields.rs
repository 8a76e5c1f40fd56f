//! Fields that a model sends with its calls and requires in the next request, such as signatures
//! and reasoning. Not for their names, which only the adapters of the vendors know.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Fields that a model sent with a call, for this model only. Decision 0088.
///
/// They are never stored, shown or logged, and do not distinguish calls: all values are equal.
#[derive(Clone, Default)]
pub struct VendorFields(Option<Arc<ReturnedFields>>);

/// Fields to return to the model that sent them.
#[derive(Default)]
pub struct ReturnedFields {
    /// Service and name of the model.
    pub model: Arc<str>,
    /// Id of the call, as the model wrote it.
    pub id: String,
    /// Fields of the call.
    pub call: Map<String, Value>,
    /// Fields of the message that contains the call.
    pub message: Arc<Map<String, Value>>,
}

impl VendorFields {
    /// Creates the fields of a call.
    pub fn new(fields: ReturnedFields) -> Self {
        Self(Some(Arc::new(fields)))
    }

    /// Returns the fields if this model sent them.
    pub fn of_model(&self, model: &str) -> Option<&ReturnedFields> {
        self.0.as_deref().filter(|fields| &*fields.model == model)
    }
}

impl fmt::Debug for VendorFields {
    /// Omits the fields: they contain reasoning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VendorFields")
    }
}

impl PartialEq for VendorFields {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for VendorFields {}
