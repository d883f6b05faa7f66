//! A limit on the work of a check, which the check cannot exceed with any schema and any input.
//!
//! A thread that computes cannot be stopped from outside. So the validator reads its input through [`Metered`], and each read takes steps
//! from an allowance. When the allowance is used up, or the time is over, the input appears to be empty, and the check ends soon; its
//! result does not count. The prices follow the validator's work: a string costs its length times the size of the patterns that it may be
//! matched against, and a list that must have unique elements costs as much as comparing them.
//!
//! Invariant: a [`Meter`] exists while a check runs. The allowance is a thread-local, because the validator's interface has no other place
//! for it.

use std::{borrow::Cow, cell::Cell, time::Instant};

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object, SerdeJson},
};
use serde_json::{Map, Value};

/// The bytes of a string that cost one step at least, because formats and comparisons read all of it.
const BYTES_PER_STEP: u64 = 16;
/// The clock is read after this number of reads.
const READS_PER_CLOCK_CHECK: u32 = 1024;

/// The prices that depend on the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prices {
    /// The steps for each node.
    pub node: u64,
    /// The steps for each byte of a string, given the largest pattern that it may be matched against.
    pub string_byte: u64,
    /// The steps for each byte of a property name, given all patterns that it may be matched against.
    pub name_byte: u64,
    /// The steps for each error that is described.
    pub error: u64,
    /// The steps for comparing a list or an object with the values that the schema names.
    pub comparison: u64,
}

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static PRICES: Cell<Prices> = const { Cell::new(Prices { node: 0, string_byte: 0, name_byte: 0, error: 0, comparison: 0 }) };
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// A guard that gives this thread an allowance for checks, until it is dropped.
pub(crate) struct Meter {
    allowed: u64,
}

impl Meter {
    /// Starts an allowance of a number of steps that ends at a point in time.
    pub fn start(steps: u64, until: Option<Instant>, prices: Prices) -> Self {
        LEFT.set(steps);
        UNTIL.set(until);
        PRICES.set(prices);
        READS.set(0);
        Self { allowed: steps }
    }

    /// Returns the number of steps that were taken.
    pub fn used(&self) -> u64 {
        self.allowed - LEFT.get()
    }

    /// Returns whether the allowance was enough.
    pub fn was_enough(&self) -> bool {
        LEFT.get() > 0
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        LEFT.set(0);
        UNTIL.set(None);
    }
}

/// Takes steps from the allowance and returns whether there are any left.
fn pay(steps: u64) -> bool {
    let mut left = LEFT.get().saturating_sub(steps.max(1));
    let reads = READS.get() + 1;
    READS.set(reads % READS_PER_CLOCK_CHECK);
    if reads == READS_PER_CLOCK_CHECK && UNTIL.get().is_some_and(|until| until <= Instant::now()) {
        left = 0;
    }
    LEFT.set(left);
    left > 0
}

fn pay_string(bytes: usize, byte_price: u64) -> bool {
    let bytes = bytes as u64;
    pay(1 + bytes / BYTES_PER_STEP + bytes.saturating_mul(byte_price))
}

/// The metered representation of JSON.
pub(crate) struct MeteredJson;

/// A value. Each read of it takes steps.
#[derive(Clone, Copy)]
pub(crate) struct Metered<'a>(pub &'a Value);

/// An object's entries.
pub(crate) struct Entries<'a>(&'a Map<String, Value>);

/// A list's elements.
pub(crate) struct Elements<'a>(&'a [Value]);

// === impl MeteredJson ===

impl Json for MeteredJson {
    type Node<'a> = Metered<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut Value, string: &str, f: impl FnOnce(Metered<'_>) -> T) -> T {
        pay_string(string.len(), 0);
        SerdeJson::with_string_node(buffer, string, |node| f(Metered(node)))
    }
}

// === impl Metered ===

impl<'a> Node<'a, MeteredJson> for Metered<'a> {
    type Object = Entries<'a>;
    type Array = Elements<'a>;
    type Number = &'a serde_json::Number;

    fn as_object(&self) -> Option<Entries<'a>> {
        if pay(1) { self.0.as_object().map(Entries) } else { None }
    }

    fn as_array(&self) -> Option<Elements<'a>> {
        if pay(1) { self.0.as_array().map(|items| Elements(items)) } else { None }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let string = self.0.as_str()?;
        if pay_string(string.len(), PRICES.get().string_byte) { Some(Cow::Borrowed(string)) } else { None }
    }

    fn as_number(&self) -> Option<&'a serde_json::Number> {
        pay(1);
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        pay(1);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        pay(1);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        pay(1);
        <&Value as Node<'a, SerdeJson>>::json_type(&self.0)
    }

    fn string_length(&self) -> Option<u64> {
        let string = self.0.as_str()?;
        pay_string(string.len(), 0);
        <&Value as Node<'a, SerdeJson>>::string_length(&self.0)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        let is_allowed = match self.0 {
            Value::String(string) => pay_string(string.len(), 0),
            Value::Array(_) | Value::Object(_) => pay(PRICES.get().comparison),
            Value::Null | Value::Bool(_) | Value::Number(_) => pay(1),
        };
        is_allowed && <&Value as Node<'a, SerdeJson>>::equals_value(&self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        pay(PRICES.get().error);
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        <&Value as Node<'a, SerdeJson>>::identity(&self.0)
    }
}

// === impl Entries ===

impl<'a> Object<'a, MeteredJson> for Entries<'a> {
    type Node = Metered<'a>;
    type MemberName = &'a str;
    type MembersIter = EntriesIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Metered<'a>> {
        if pay(1 + PRICES.get().node) { self.0.get(key.as_str()).map(Metered) } else { None }
    }

    fn members(&self) -> EntriesIter<'a> {
        EntriesIter(self.0.iter())
    }
}

/// An iterator over an object's entries that ends when the allowance does.
pub(crate) struct EntriesIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for EntriesIter<'a> {
    type Item = (&'a str, Metered<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        let prices = PRICES.get();
        let is_allowed = pay(prices.node) && pay_string(name.len(), prices.name_byte);
        if is_allowed { Some((name.as_str(), Metered(value))) } else { None }
    }
}

// === impl Elements ===

impl<'a> Array<'a, MeteredJson> for Elements<'a> {
    type Node = Metered<'a>;
    type ElementsIter = ElementsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ElementsIter<'a> {
        ElementsIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        let size: u64 = self.0.iter().map(size).sum();
        let count = self.0.len() as u64;
        // Lists and objects can be constructed so that all of them have one hash. Then all pairs are compared.
        let comparisons =
            if self.0.iter().any(|item| item.is_array() || item.is_object()) { count } else { 1 };
        if !pay(size.saturating_add(size.saturating_mul(comparisons) / BYTES_PER_STEP)) {
            return true;
        }
        <&[Value] as Array<'a, SerdeJson>>::is_unique(&self.0)
    }
}

/// An iterator over a list that ends when the allowance does.
pub(crate) struct ElementsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ElementsIter<'a> {
    type Item = Metered<'a>;

    fn next(&mut self) -> Option<Metered<'a>> {
        let item = self.0.next()?;
        if pay(1 + PRICES.get().node) { Some(Metered(item)) } else { None }
    }
}

/// Returns the number of nodes of a value. A long string counts as several.
pub(crate) fn size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(string) => 1 + string.len() as u64 / BYTES_PER_STEP,
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(entries) => {
            let sizes =
                entries.iter().map(|(name, value)| 1 + name.len() as u64 / BYTES_PER_STEP + size(value));
            1 + sizes.sum::<u64>()
        }
    }
}
