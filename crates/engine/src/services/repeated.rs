//! Lines of the log that have one cause and would come many times.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::sleep;

use super::Shutdown;

/// Equal lines are counted for this time, and then logged as one.
const WINDOW: Duration = Duration::from_secs(60);

/// Logs the first of equal lines at once. Those that follow are counted and logged as one a minute later, and so on.
///
/// Two lines are equal if they have the same key. Keys must not come from clients, because each is kept for a minute.
#[derive(Clone, Default)]
pub(crate) struct Repeated {
    /// The number of lines that were counted, by key, while a minute runs. Held for a few instructions.
    counted: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Repeated {
    /// Logs a line, or counts it. `log` is given the number of times that the line stands for.
    pub fn log(&self, shutdown: &Shutdown, key: String, log: impl Fn(u64) + Send + 'static) {
        if let Some(count) = self.lock().get_mut(&key) {
            *count += 1;
            return;
        }
        self.lock().insert(key.clone(), 0);
        log(1);
        let this = self.clone();
        shutdown.spawn_background(&shutdown.stopped, async move {
            loop {
                sleep(WINDOW).await;
                let count = this.take(&key);
                if count == 0 {
                    return;
                }
                log(count);
            }
        });
    }

    /// Returns the count of a key and sets it to 0. A key whose count is 0 is forgotten.
    fn take(&self, key: &str) -> u64 {
        let mut counted = self.lock();
        let count = counted.get_mut(key).map(std::mem::take).unwrap_or_default();
        if count == 0 {
            counted.remove(key);
        }
        count
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn equal_lines_are_one_in_each_minute() {
        let (repeated, shutdown) = (Repeated::default(), Shutdown::default());
        let logged = Arc::new(Mutex::new(Vec::new()));
        let log = |key: &str| {
            let (logged, line) = (logged.clone(), key.to_owned());
            repeated.log(&shutdown, key.to_owned(), move |times| {
                logged.lock().unwrap().push((line.clone(), times));
            });
        };
        let all = || std::mem::take(&mut *logged.lock().unwrap());
        let line = |key: &str, times| (key.to_owned(), times);
        for _ in 0..10 {
            log("a");
        }
        log("b");
        assert_eq!(all(), [line("a", 1), line("b", 1)]);
        sleep(WINDOW + Duration::from_secs(1)).await;
        assert_eq!(all(), [line("a", 9)]);
        log("a");
        log("b");
        assert_eq!(all(), [line("b", 1)]);
        sleep(WINDOW).await;
        assert_eq!(all(), [line("a", 1)]);
        sleep(2 * WINDOW).await;
        assert_eq!(all(), []);
        log("a");
        assert_eq!(all(), [line("a", 1)]);
    }
}
