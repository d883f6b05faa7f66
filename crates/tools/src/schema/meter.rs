//! An input that is read through a meter, so that checking it ends, whatever the schema.
//!
//! A thread that computes cannot be stopped from outside. The validator reads its input through [`Metered`], and every read is paid
//! for out of an allowance; when that is used up, or the time is over, the input has nothing more to read and the check comes to its
//! end within moments. What it says then does not count. Prices follow what the validator does with what it reads: a string costs its
//! length times the size of the patterns it may be matched against, a list that must have no two equal elements costs as much as
//! comparing them.
//!
//! Invariant: whoever runs a check holds a [`Meter`]; the allowance belongs to the thread, because the validator's interface leaves no
//! other place for it.

use std::{borrow::Cow, cell::Cell, time::Instant};

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object, SerdeJson},
};
use serde_json::{Map, Value};

/// The least that a string costs for each byte, as a fraction: formats and comparisons look at all of it.
const BYTES_A_STEP: u64 = 16;
/// After so many reads the clock is looked at.
const READS_A_LOOK: u32 = 1024;

/// What reading costs, where it depends on the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prices {
    /// Steps for each node that is reached.
    pub node: u64,
    /// Steps for each byte of a string, for the largest pattern that it may be matched against.
    pub string_byte: u64,
    /// Steps for each byte of a property's name, for all patterns that it may be matched against.
    pub name_byte: u64,
    /// Steps for each fault that is put into words.
    pub fault: u64,
    /// Steps to compare a list or an object with the values that the schema names.
    pub comparison: u64,
}

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static PRICES: Cell<Prices> = const { Cell::new(Prices { node: 0, string_byte: 0, name_byte: 0, fault: 0, comparison: 0 }) };
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// An allowance for checks on this thread, for as long as it lives.
pub(crate) struct Meter {
    allowed: u64,
}

impl Meter {
    /// Allows so many steps until then.
    pub fn start(steps: u64, until: Option<Instant>, prices: Prices) -> Self {
        LEFT.set(steps);
        UNTIL.set(until);
        PRICES.set(prices);
        READS.set(0);
        Self { allowed: steps }
    }

    /// Steps that were taken.
    pub fn used(&self) -> u64 {
        self.allowed - LEFT.get()
    }

    /// Whether the allowance was enough.
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

/// Pays for a read. Whether there is anything left.
fn pay(steps: u64) -> bool {
    let mut left = LEFT.get().saturating_sub(steps.max(1));
    let reads = READS.get() + 1;
    READS.set(reads % READS_A_LOOK);
    if reads == READS_A_LOOK && UNTIL.get().is_some_and(|until| until <= Instant::now()) {
        left = 0;
    }
    LEFT.set(left);
    left > 0
}

fn pay_string(bytes: usize, byte_price: u64) -> bool {
    let bytes = bytes as u64;
    pay(1 + bytes / BYTES_A_STEP + bytes.saturating_mul(byte_price))
}

/// The representation of JSON that is paid for.
pub(crate) struct MeteredJson;

/// A value that is paid for.
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
        let may_go_on = match self.0 {
            Value::String(string) => pay_string(string.len(), 0),
            Value::Array(_) | Value::Object(_) => pay(PRICES.get().comparison),
            Value::Null | Value::Bool(_) | Value::Number(_) => pay(1),
        };
        may_go_on && <&Value as Node<'a, SerdeJson>>::equals_value(&self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        pay(PRICES.get().fault);
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

/// Goes through an object's entries for as long as it can pay.
pub(crate) struct EntriesIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for EntriesIter<'a> {
    type Item = (&'a str, Metered<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        let prices = PRICES.get();
        let may_go_on = pay(prices.node) && pay_string(name.len(), prices.name_byte);
        may_go_on.then_some((name.as_str(), Metered(value)))
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
        // Lists and objects may be made so that all of them hash alike; then each is compared with each.
        let comparisons =
            if self.0.iter().any(|item| item.is_array() || item.is_object()) { count } else { 1 };
        if !pay(size.saturating_add(size.saturating_mul(comparisons) / BYTES_A_STEP)) {
            return true;
        }
        <&[Value] as Array<'a, SerdeJson>>::is_unique(&self.0)
    }
}

/// Goes through a list for as long as it can pay.
pub(crate) struct ElementsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ElementsIter<'a> {
    type Item = Metered<'a>;

    fn next(&mut self) -> Option<Metered<'a>> {
        let item = self.0.next()?;
        if pay(1 + PRICES.get().node) { Some(Metered(item)) } else { None }
    }
}

/// Nodes of a value, a long string counting as several.
pub(crate) fn size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(string) => 1 + string.len() as u64 / BYTES_A_STEP,
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(entries) => {
            let name_and_value =
                |(name, value): (&String, &Value)| 1 + name.len() as u64 / BYTES_A_STEP + size(value);
            1 + entries.iter().map(name_and_value).sum::<u64>()
        }
    }
}
