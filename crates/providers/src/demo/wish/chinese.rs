//! Wishes in Chinese. Words are not set apart there, so what is looked for is part of the sentence before a colon; what follows the colon
//! is not read.

use super::{ChartKind, Wish, bare, head};

/// Reads the words; `None` where they say nothing that is known in Chinese.
pub(super) fn read(text: &str) -> Option<Wish> {
    let head = head(text);
    let has = |options: &[&str]| options.iter().any(|option| head.contains(option));
    let wish = if let Some(name) = after(head, &["使用工具", "调用工具", "使用", "调用"]) {
        Wish::Use(name)
    } else if has(&["记录"]) && has(&["创建", "新建", "添加", "建"]) {
        Wish::CreateRecord(told(text, &["记录"]))
    } else if has(&["笔记"]) && has(&["查", "找", "搜"]) {
        Wish::FindNotes(sought(text))
    } else if has(&["笔记", "记住", "记下", "记一"]) {
        Wish::WriteNote(told(text, &["笔记", "记住", "记下", "记一下"]))
    } else if has(&["全部", "一起来"]) {
        Wish::Everything
    } else if has(&["思考", "想一想", "想想"]) {
        let about = ["思考一下", "思考", "想一想", "想想"];
        Wish::Think(after(text, &["关于"]).or_else(|| after(text, &about)).unwrap_or_default())
    } else if has(&["图表", "柱状图", "折线图", "饼图", "画图", "画一张图", "画个图"]) {
        Wish::Chart(chart(head))
    } else if has(&["问我"]) {
        Wish::Question
    } else if has(&["文件"]) && has(&["选", "挑", "上传"]) {
        Wish::PickFile
    } else if has(&["故事"]) {
        Wish::Story
    } else if has(&["我在哪", "位置", "定位"]) {
        Wish::Location
    } else if has(&["几点", "时间", "日期", "几号"]) {
        Wish::Time
    } else {
        return None;
    };
    Some(wish)
}

fn chart(text: &str) -> ChartKind {
    if text.contains('饼') {
        ChartKind::Pie
    } else if text.contains("折线") {
        ChartKind::Line
    } else {
        ChartKind::Bar
    }
}

/// What follows the first of the words that is there and is followed by something.
fn after(text: &str, words: &[&str]) -> Option<String> {
    let rest = words.iter().filter_map(|word| text.split_once(word).map(|(_, rest)| bare(rest)));
    rest.into_iter().find(|rest| !rest.is_empty())
}

/// What is to be kept: what follows the colon, or one of the words.
fn told(text: &str, words: &[&str]) -> String {
    text.split_once([':', '：'])
        .map(|(_, rest)| bare(rest))
        .or_else(|| after(text, words))
        .unwrap_or_default()
}

/// Which notes: those after a colon, or what stands before the word, without what everybody says.
fn sought(text: &str) -> String {
    if let Some((_, rest)) = text.split_once([':', '：']) {
        return bare(rest);
    }
    let Some((before, _)) = text.split_once("笔记") else { return String::new() };
    let verbs = ["关于", "查找一下", "搜索一下", "找一下", "查找", "搜索", "查", "找"];
    let about = after(before, &verbs).unwrap_or_default();
    bare(about.trim_start_matches("我的").trim_end_matches('的'))
}
