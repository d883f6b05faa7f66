//! What somebody who plays with the demo wants, read from their words.

mod chinese;
mod english;

use super::language::Language;

/// A wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing the demo knows, or a greeting.
    Talk,
    /// What time it is.
    Time,
    /// A note to be written, with its text; empty where they gave none.
    WriteNote(String),
    /// Notes to be found, by these words.
    FindNotes(String),
    /// Where they are.
    Location,
    /// A chart.
    Chart(ChartKind),
    /// To be asked something.
    Question,
    /// To pick a file.
    PickFile,
    /// A record to be made, with its title; empty where they gave none.
    CreateRecord(String),
    /// Several things at once.
    Everything,
    /// Reasoning about something; empty where they did not say about what.
    Think(String),
    /// A long answer.
    Story,
    /// A tool called by its name.
    Use(String),
}

/// What a chart looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChartKind {
    /// Bars side by side.
    Bar,
    /// Lines.
    Line,
    /// A cake in pieces.
    Pie,
}

// === impl Wish ===

impl Wish {
    /// Reads the words. Who writes Chinese may still give a command in English.
    pub(super) fn read(text: &str) -> Self {
        match Language::of(text) {
            Language::English => english::read(text.trim()),
            Language::Chinese => chinese::read(text.trim()).unwrap_or_else(|| english::read(text.trim())),
        }
    }
}

// === impl ChartKind ===

impl ChartKind {
    /// Its name among those that the tool knows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bar => "bar",
            Self::Line => "line",
            Self::Pie => "pie",
        }
    }
}

/// The words before a colon; all, where there is none.
fn head(text: &str) -> &str {
    text.split([':', '：']).next().unwrap_or(text)
}

/// What is meant, without the quotes and stops around it.
fn bare(text: &str) -> String {
    const MARKS: &[char] = &[
        '"', '\'', '`', '“', '”', '.', '!', '?', ':', ' ', '‘', '’', '「', '」', '『', '』', '《', '》',
        '。', '，', '、', '！', '？', '：', '；',
    ];
    text.trim().trim_matches(MARKS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_understood() {
        for (words, wish) in [
            ("What time is it?", Wish::Time),
            ("write a note: buy milk", Wish::WriteNote("buy milk".into())),
            ("Please write a note \"Buy milk.\"", Wish::WriteNote("Buy milk".into())),
            ("remember the milk", Wish::WriteNote("the milk".into())),
            ("write a note", Wish::WriteNote(String::new())),
            ("write a note: draw a chart", Wish::WriteNote("draw a chart".into())),
            ("find my notes about milk", Wish::FindNotes("milk".into())),
            ("search notes", Wish::FindNotes(String::new())),
            ("Where am I?", Wish::Location),
            ("do everything", Wish::Everything),
            ("think about tea", Wish::Think("tea".into())),
            ("think", Wish::Think(String::new())),
            ("Use get_weather.", Wish::Use("get_weather".into())),
            ("Draw a chart!", Wish::Chart(ChartKind::Bar)),
            ("draw a line chart by date", Wish::Chart(ChartKind::Line)),
            ("show me a pie chart", Wish::Chart(ChartKind::Pie)),
            ("ask me something", Wish::Question),
            ("Pick a file.", Wish::PickFile),
            ("let me choose files", Wish::PickFile),
            ("create a record: First visit", Wish::CreateRecord("First visit".into())),
            (
                "create a record: a note about everything",
                Wish::CreateRecord("a note about everything".into()),
            ),
            ("Create a record", Wish::CreateRecord(String::new())),
            ("tell me a long story", Wish::Story),
            ("hello", Wish::Talk),
            ("useful", Wish::Talk),
            ("", Wish::Talk),
            ("ÄÖ", Wish::Talk),
        ] {
            assert_eq!(Wish::read(words), wish, "{words}");
        }
    }

    #[test]
    fn plain_words_are_understood_in_chinese_too() {
        for (words, wish) in [
            ("现在几点", Wish::Time),
            ("请问现在是什么时间？", Wish::Time),
            ("写一条笔记：买牛奶", Wish::WriteNote("买牛奶".into())),
            ("写一条笔记:买牛奶。", Wish::WriteNote("买牛奶".into())),
            ("帮我记住“买牛奶”", Wish::WriteNote("买牛奶".into())),
            ("写一条笔记", Wish::WriteNote(String::new())),
            ("写一条笔记：查找图表，全部一起来", Wish::WriteNote("查找图表，全部一起来".into())),
            ("查找关于牛奶的笔记", Wish::FindNotes("牛奶".into())),
            ("搜索我的笔记", Wish::FindNotes(String::new())),
            ("搜索笔记：牛奶", Wish::FindNotes("牛奶".into())),
            ("找一下牛奶的笔记", Wish::FindNotes("牛奶".into())),
            ("我在哪里？", Wish::Location),
            ("我的位置", Wish::Location),
            ("全部一起来", Wish::Everything),
            ("思考一下茶", Wish::Think("茶".into())),
            ("想一想关于茶的事", Wish::Think("茶的事".into())),
            ("思考", Wish::Think(String::new())),
            ("使用 get_weather", Wish::Use("get_weather".into())),
            ("使用get_weather。", Wish::Use("get_weather".into())),
            ("请使用工具 get_weather", Wish::Use("get_weather".into())),
            ("画一张图表", Wish::Chart(ChartKind::Bar)),
            ("画一张折线图", Wish::Chart(ChartKind::Line)),
            ("画一个饼图", Wish::Chart(ChartKind::Pie)),
            ("问我一个问题", Wish::Question),
            ("选择一个文件", Wish::PickFile),
            ("创建一条记录：第一次来访", Wish::CreateRecord("第一次来访".into())),
            ("新建记录", Wish::CreateRecord(String::new())),
            ("讲一个长故事", Wish::Story),
            ("你好", Wish::Talk),
            ("write a note: 买牛奶", Wish::WriteNote("买牛奶".into())),
            ("use 天气", Wish::Use("天气".into())),
        ] {
            assert_eq!(Wish::read(words), wish, "{words}");
        }
    }
}
