//! 中文。

use serde_json::{Value, json};

use super::{Before, Offer, Picked, Words, form, sales};
use crate::demo::wish::ChartKind;

/// The language.
pub(super) struct Chinese;

const OFFERS: &[Offer] = &[
    offer("现在几点", "服务器直接运行的工具", "current_time"),
    offer("写一条笔记：买牛奶", "需要你批准才会运行的工具", "write_note"),
    offer("查找关于牛奶的笔记", "服务器的另一个工具，与上面那个共用一把锁", "search_notes"),
    // Without the tool one is told how to post it.
    Offer { say: "我在哪里", shows: "由浏览器运行的工具（需要页面提供）", needs: None },
    offer("画一张图表", "茶的销量，由浏览器来画", "show_chart"),
    offer("问我一个问题", "一份请你填写的表单", "ask_user"),
    offer("选择一个文件", "你的一个文件，在浏览器里选", "pick_file"),
    offer("创建一条记录：第一次来访", "保存在浏览器里的内容", "create_record"),
    Offer { say: "全部一起来", shows: "一步里的多个调用", needs: None },
    Offer { say: "思考一下茶", shows: "回答之前的推理", needs: None },
    Offer { say: "讲一个长故事", shows: "一段很长的回答，随时可以按停止", needs: None },
];

const fn offer(say: &'static str, shows: &'static str, tool: &'static str) -> Offer {
    Offer { say, shows, needs: Some(tool) }
}

impl Words for Chinese {
    fn hello(&self, is_unknown: bool) -> String {
        let unknown = if is_unknown { "这句话我没有台词。" } else { "" };
        format!(
            "你好！{unknown}我是 Fermata 内置的**演示**：只是一段脚本，不是语言模型。输入下面任意一行，看看会发生什么："
        )
    }

    fn offers(&self) -> &'static [Offer] {
        OFFERS
    }

    fn using_by_name(&self, tool: &str) -> (String, &'static str) {
        (format!("使用 {tool}"), "按名字调用这个聊天里的任意工具，包括页面自己的")
    }

    fn real_model(&self) -> &'static str {
        "想用真正的模型，请设置 `OPENAI_API_KEY`（或者用 `OPENAI_BASE_URL` 指向你自己的服务器）和 `FERMATA_MODEL`，然后重新启动 Fermata。"
    }

    fn before(&self, what: Before) -> &'static str {
        match what {
            Before::Time => "我来看看时钟。",
            Before::WriteNote => "如果你允许，我就记下来。",
            Before::FindNotes => "我来翻翻你的笔记。",
            Before::Location => "这个要问你的浏览器，我正在问。",
            Before::Chart => "我编了一些数字，请浏览器画出来。",
            Before::Question => "好的，请填写这份表单。",
            Before::PickFile => "请在浏览器里选一个文件。",
            Before::CreateRecord => "如果你允许，我就把它存进你的浏览器。",
            Before::Everything => "那就一起来。在你做出所有决定之前，什么都不会运行。",
        }
    }

    fn using(&self, tool: &str) -> String {
        format!("正在调用 `{tool}`，输入是按它的 schema 编出来的。")
    }

    fn no_tool(&self, tool: &str, is_of_page: bool) -> String {
        let who = if is_of_page { "这个页面" } else { "这台服务器" };
        format!("这需要工具 `{tool}`，但{who}没有提供它。")
    }

    fn no_tools(&self) -> &'static str {
        "这个聊天里没有我能用的工具。"
    }

    fn no_such_tool(&self, known: &str) -> String {
        format!("没有叫这个名字的工具。这个聊天里有：{known}。")
    }

    fn no_location_tool(&self, tool: &str) -> String {
        format!(
            "只有你的浏览器知道，而它没有给我可以询问的工具。页面（或者 curl）可以把这样的工具和消息一起发来：\n\n```json\n{tool}\n```\n\n\
             然后再问我一次，调用会一直等到页面回答为止。"
        )
    }

    fn nothing_at_once(&self) -> &'static str {
        "我本想同时调用好几个工具，但这个聊天里没有我认识的。"
    }

    fn call_none(&self) -> &'static str {
        "这需要调用工具，但我被告知不要调用。"
    }

    fn as_you_wish(&self) -> &'static str {
        "如你所愿。"
    }

    fn thought(&self, about: &str) -> (String, String) {
        (
            format!(
                "有人想让我思考一下{about}。我只是一段脚本，所以这不算思考，但它像思考一样一点点出现：真正的模型会把推理写在这里，客户端可以把它折叠起来。"
            ),
            format!("关于{about}，我已经像脚本那样认真想过了。上面那一段就是推理。"),
        )
    }

    fn story(&self) -> &'static str {
        include_str!("../story/chinese.md")
    }

    fn some_note(&self) -> &'static str {
        "一条笔记"
    }

    fn note_and_query(&self) -> (&'static str, &'static str) {
        ("买牛奶", "牛奶")
    }

    fn some_subject(&self) -> &'static str {
        "这件事"
    }

    fn chart(&self, kind: ChartKind) -> Value {
        let months = ["一月", "二月", "三月", "四月", "五月", "六月"];
        sales(kind, "各月茶的销量（虚构）", "杯数", months, ["绿茶", "红茶", "薄荷茶"])
    }

    fn question(&self) -> Value {
        let titles = ["你的名字", "你最喜欢的饮料", "一天喝几杯？"];
        form("你是谁？想喝点什么？", titles, ["茶", "咖啡", "水"])
    }

    fn file(&self) -> Value {
        json!({"purpose": "我会告诉你它的名字、类型和大小。"})
    }

    fn record(&self, title: &str) -> Value {
        let title = if title.is_empty() { "一条记录" } else { title };
        json!({"collection": "来访", "title": title, "data": {"来自": "演示"}})
    }

    fn denied(&self, tool: &str, why: &str) -> String {
        format!("`{tool}` 被拒绝了，所以我没有做。得到的说明是：{why}")
    }

    fn failed(&self, tool: &str, why: &str) -> String {
        format!("`{tool}` 没有成功。得到的说明是：{why}")
    }

    fn gave(&self, tool: &str, result: &str) -> String {
        format!("`{tool}` 的结果是：{result}")
    }

    fn clock(&self, result: &str) -> String {
        format!("服务器的时钟显示：{result}")
    }

    fn notes(&self, result: &str) -> String {
        format!("你的笔记里有这些：{result}")
    }

    fn noted(&self, title: &str) -> String {
        format!("谢谢，我记下了“{title}”。你可以让我再把它找出来。")
    }

    fn noted_as_edited(&self, title: &str, body: &str) -> String {
        format!("谢谢，我按你修改的内容记下了“{title}”：{body}")
    }

    fn place(&self, latitude: f64, longitude: f64, accuracy: Option<f64>) -> String {
        let within = accuracy.map(|metres| format!("，误差约 {metres:.0} 米")).unwrap_or_default();
        format!("浏览器说你在纬度 {latitude:.4}、经度 {longitude:.4}{within}。")
    }

    fn drawn(&self, title: &str) -> String {
        format!("画好了：“{title}”。是浏览器画的，我只发了数字。")
    }

    fn answered(&self, answers: &str, name: Option<&str>, drink: Option<&str>) -> String {
        let name = name.map(|name| format!("很高兴认识你，{name}。")).unwrap_or_default();
        let drink =
            drink.map(|drink| format!("要是脚本会倒水，你的{drink}已经在路上了。")).unwrap_or_default();
        format!("谢谢。你告诉我：\n\n{answers}\n\n关于你，我只知道这些。{name}{drink}")
    }

    fn not_answered(&self) -> &'static str {
        "你不想说，没关系。"
    }

    fn picked(&self, files: &[Picked]) -> String {
        let about = |file: &Picked| {
            let more: Vec<_> = file.size.iter().chain(&file.kind).map(String::as_str).collect();
            let more = if more.is_empty() { String::new() } else { format!("（{}）", more.join("，")) };
            format!("“{}”{more}", file.name)
        };
        let files: Vec<_> = files.iter().map(about).collect();
        format!("你选了{}。", files.join("、"))
    }

    fn picked_none(&self) -> &'static str {
        "你没有选文件，没关系。"
    }

    fn recorded(&self, title: &str, collection: &str) -> String {
        format!("好了：“{title}”现在保存在浏览器的“{collection}”里。")
    }
}
