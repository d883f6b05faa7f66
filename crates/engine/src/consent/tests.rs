use proptest::prelude::*;

use super::*;

#[test]
fn only_a_text_that_is_one_of_the_words_decides() {
    let words = ConsentWords::default();
    for (decision, texts) in [
        (
            Some(true),
            &[
                "yes",
                "  OK!! ",
                "ＹＥＳ",
                "ＯＫ！",
                "Okay.",
                "Go  ahead",
                "go\nahead",
                "yes please",
                "Yes, please!",
                "please confirm",
                "ok, thanks",
                "Yes. Thank you.",
                "确认。",
                "是",
                "是的",
                "好的",
                "好吧",
                "好的，谢谢",
                "可以了",
                "请继续",
                "確認",
                "sí",
                "Si\u{301}",
                "SÍ.",
                "vale, gracias",
                "de acuerdo",
                "oui",
                "D’accord",
                "oui, s’il vous plaît",
                "ja",
                "Ja, bitte",
                "ja gerne",
                "In Ordnung.",
                "bestätigen",
                "はい",
                "はい、お願いします",
                "OKです",
                "続けてください",
                "承認",
                "👍",
                "👍🏽",
                "✅",
                "✅\u{fe0f}",
                "👍!",
                "y",
                "sure",
                "do it, please",
                "行",
                "行吧",
                "可以",
                "好",
                "确定",
                "没问题",
                "确认执行",
                "确认！",
                "继续吧",
                "klar",
                "vas-y",
                "どうぞ",
                "ok\n",
                "\tyes\u{a0}",
            ][..],
        ),
        (
            Some(false),
            &[
                "No.",
                "n",
                "stop",
                "Stop!",
                "CANCEL",
                "不行",
                "不用了",
                "别",
                "no thanks",
                "No, thank you!",
                "don't",
                "Don’t.",
                "不",
                "不了",
                "不要",
                "不用了，谢谢",
                "算了",
                "取消",
                "no, gracias",
                "non merci",
                "pas d'accord",
                "nein danke",
                "いいえ",
                "いや",
                "キャンセル",
                "ｷｬﾝｾﾙ",
                "👎",
                "👎🏿",
                "❌",
            ][..],
        ),
        (
            None,
            &[
                // Questions, doubt and more than a word.
                "",
                "!",
                ".",
                "please",
                "thanks",
                "谢谢",
                "吧",
                "yes?",
                "OK?",
                "ok???",
                "确认？",
                "继续?",
                "是吗",
                "yes!?",
                "是?",
                "是⁉",
                "yes…",
                "yes yes",
                "yes, but make it blue",
                "yes\n\nno",
                "no, wait, yes",
                "oh yes",
                "yesterday",
                "y e s",
                "yes,",
                ", yes",
                "yes;drop",
                "yesplease",
                "not ok",
                "no ok",
                "不是",
                "不确认",
                "nicht ok",
                "kein ok",
                "pas ok",
                "ok no",
                "ok, not now",
                // Quotes, Markdown, code and marks in front.
                "> yes",
                "> yes\nwhat is this?",
                "\"yes\"",
                "'yes'",
                "“yes”",
                "«oui»",
                "「是」",
                "~~yes~~",
                "`yes`",
                "**yes**",
                "_yes_",
                "- yes",
                "- [ ] ok",
                "[ ] yes",
                "# ok",
                "1. yes",
                "!ok",
                "please !ok",
                "-ok",
                "/ok",
                "<yes>",
                "(yes)",
                "¬yes",
                "¡sí!",
                "=yes",
                "yes/no",
                // Emoji and symbols.
                "yes ❌",
                "👎 ok",
                "🚫 yes 🚫",
                "😡 ok",
                "ok 🙄",
                "👍👍",
                "👍👎",
                "👍 yes",
                "yes 👍",
                "✔",
                "🆗",
                "👌",
                "👍🏽🏽",
                "yes\u{fe0f}",
                // Other letters that look alike, and characters that nobody sees.
                "𝐲𝐞𝐬",
                "ⓨⓔⓢ",
                "ʸᵉˢ",
                "yes\u{200b}",
                "\u{202e}yes",
                "y\u{200b}es",
                "\u{feff}ok",
                "уes",
                "yеs",
                "№",
                "ok\u{301}",
                "YEŚ",
                "YEſ",
                "o\u{212a}",
                "ⅵ",
                "㏀",
                "sİ",
                "ok\0",
                "\0yes",
                "🄾🄺",
            ][..],
        ),
    ] {
        for text in texts {
            assert_eq!(words.decision(text), decision, "{text:?}");
        }
    }
    assert_eq!(words.decision(&format!("{}yes", " ".repeat(LONGEST))), None);
}

#[test]
fn each_default_word_means_one_thing() {
    let words = ConsentWords::default();
    for word in CONFIRM {
        assert_eq!(words.decision(word), Some(true), "{word}");
    }
    for word in DENY {
        assert_eq!(words.decision(word), Some(false), "{word}");
    }
}

#[test]
fn the_operators_words_are_added_and_a_word_in_both_lists_denies() {
    let words =
        ConsentWords::default().with(&["Make it so!".into(), "ok?".into()], &["stop".into(), "okay".into()]);
    for (said, decision) in [
        ("make \n it so", Some(true)),
        ("ok?", Some(true)),
        ("yes", Some(true)),
        ("yes?", None),
        ("Stop.", Some(false)),
        ("okay", Some(false)),
        ("okay, please", Some(false)),
        ("no", Some(false)),
    ] {
        assert_eq!(words.decision(said), decision, "{said}");
    }
    for said in CONFIRM.iter().chain(&DENY) {
        assert_eq!(ConsentWords::off().decision(said), None, "{said}");
    }
}

/// A single one of these characters makes it doubtful that a message is a plain "yes".
fn doubtful() -> impl Strategy<Value = char> {
    let of = |chars: &'static str| prop::sample::select(chars.chars().collect::<Vec<_>>());
    prop_oneof![
        of(
            "?？¿⁉؟¬~*_`>#<[](){}|/\\-+=^$%&@\"'“”‘«»「」;:…❓🚫🙄😡❌👎\u{200b}\u{200d}\u{2060}\u{202e}\u{feff}\u{ad}\0"
        ),
        prop::char::range('\u{2190}', '\u{2bff}'),
        prop::char::range('\u{1d400}', '\u{1d7ff}'),
        prop::char::range('\u{1f300}', '\u{1faff}')
            .prop_filter("a thumb", |c| *c != '👍' && !('🏻'..='🏿').contains(c)),
    ]
}

/// A word of consent as somebody may write it.
fn consent() -> impl Strategy<Value = String> {
    let endings =
        prop::sample::select(vec!["", "!", ".", "。", " please", ", thanks", "，谢谢", "吧", " bitte"]);
    (prop::sample::select(CONFIRM.to_vec()), endings, any::<bool>()).prop_map(|(word, ending, is_loud)| {
        let text = format!("{word}{ending}");
        if is_loud { text.to_uppercase() } else { text }
    })
}

proptest! {
    #[test]
    fn a_mark_of_doubt_anywhere_never_approves(text in consent(), at in any::<prop::sample::Index>(), doubt in doubtful()) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut doubted = text;
        doubted.insert(places[at.index(places.len())], doubt);
        prop_assert_ne!(ConsentWords::default().decision(&doubted), Some(true), "{:?}", doubted);
    }

    #[test]
    fn a_negation_before_or_behind_never_approves(text in consent(), behind in any::<bool>(), negation in prop::sample::select(vec![
        "no", "not", "don't", "never", "不", "别", "没", "未", "ne", "pas", "non", "jamais", "nicht", "kein", "nein", "nunca", "いいえ", "ない",
    ])) {
        let negated = if behind { format!("{text} {negation}") } else { format!("{negation} {text}") };
        prop_assert_ne!(ConsentWords::default().decision(&negated), Some(true), "{:?}", negated);
    }

    #[test]
    fn other_texts_decide_nothing(text in "\\PC{0,12}") {
        let words = ConsentWords::default();
        if let Some(approved) = words.decision(&text) {
            // It has a word of that kind in it.
            let said = text.to_lowercase();
            let known: &[&str] = if approved { &CONFIRM } else { &DENY };
            prop_assert!(known.iter().any(|word| folded(&said).unwrap().contains(word)), "{:?}", text);
        }
    }
}
