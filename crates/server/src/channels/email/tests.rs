//! Mails and links, with a stand-in for a mail server on this machine.

use std::collections::BTreeMap;

use fermata_engine::{ApprovalState, store::NoticeEvent};
use fermata_tools::{Approver, Pattern, People, Person};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    sync::mpsc,
};

use super::*;
use crate::{
    channels::tests::{FakeDesk, approval, notice, records},
    config::SmtpUrl,
};

/// A server that takes every mail.
struct Mailbox {
    url: String,
    mails: mpsc::UnboundedReceiver<String>,
}

struct Setup {
    email: Email,
    mailbox: Mailbox,
    desk: FakeDesk,
    asked: Approval,
}

impl Mailbox {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("smtp://{}", listener.local_addr().expect("an address"));
        let (sending, mails) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(BufReader::new(connection), sending.clone()));
            }
        });
        Self { url, mails }
    }

    /// Returns the mails that have come, by recipient, with soft line breaks joined.
    fn take(&mut self) -> BTreeMap<String, String> {
        let mut mails = BTreeMap::new();
        while let Ok(mail) = self.mails.try_recv() {
            let text = mail.replace("=\r\n", "").replace("=3D", "=");
            let to = text.lines().find_map(|line| line.strip_prefix("To: ")).expect("a recipient").to_owned();
            mails.insert(to, text);
        }
        mails
    }
}

/// Speaks SMTP with one client.
async fn serve(
    mut connection: BufReader<tokio::net::TcpStream>,
    mails: mpsc::UnboundedSender<String>,
) -> Option<()> {
    let (mut mail, mut in_data) = (String::new(), false);
    connection.write_all(b"220 test\r\n").await.ok()?;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let answer: &[u8] = match (in_data, line.trim_end()) {
            (true, ".") => {
                in_data = false;
                mails.send(std::mem::take(&mut mail)).ok()?;
                b"250 taken\r\n"
            }
            (true, _) => {
                mail += &line;
                continue;
            }
            (false, "DATA") => {
                in_data = true;
                b"354 go on\r\n"
            }
            (false, "QUIT") => b"221 bye\r\n",
            (false, _) => b"250 ok\r\n",
        };
        connection.write_all(answer).await.ok()?;
    }
}

impl Setup {
    /// Alice and bob may decide, and carol may not.
    async fn new() -> Self {
        let mailbox = Mailbox::start().await;
        let settings = EmailSettings {
            smtp: SmtpUrl::try_from(mailbox.url.clone()).expect("a URL"),
            from: "Fermata <fermata@example.com>".parse().expect("an address"),
            links: true,
        };
        let person = |name: &str| Person { groups: Vec::new(), email: Some(format!("{name}@example.com")) };
        let people = ["alice", "bob", "carol"].map(|name| (name.to_owned(), person(name)));
        let shared = Shared::of("https://chat.example.com", People::new(people.into()));
        let by = ["alice", "bob"].map(|name| Approver::User(Pattern::new(name)));
        let asked = approval(&by);
        let email = Email::new("mail", settings, true, records().await, shared);
        Self { email, mailbox, desk: FakeDesk::with(asked.clone()), asked }
    }

    async fn send(&self, id: &str, event: NoticeEvent) {
        let notice = Notice { id: id.into(), ..notice("mail", event, &self.asked) };
        self.email.send(&notice, &self.desk).await.expect("it is sent");
    }

    /// Has mails sent, and returns the tokens of alice's links: the one that approves and the one that denies.
    async fn tokens(&mut self) -> [String; 2] {
        self.send("n1", NoticeEvent::ApprovalRequested).await;
        let mails = self.mailbox.take();
        ["Approve: ", "Deny: "].map(|name| {
            let mut lines = mails["alice@example.com"].lines();
            let url = lines.find_map(|line| line.strip_prefix(name)).expect("a link");
            url.strip_prefix("https://chat.example.com/channels/mail/l/").expect("a link here").to_owned()
        })
    }
}

fn header<'a>(mail: &'a str, name: &str) -> Option<&'a str> {
    mail.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[tokio::test]
async fn each_person_who_may_decide_gets_one_mail_and_the_outcome_as_a_reply() {
    let mut setup = Setup::new().await;
    setup.send("n1", NoticeEvent::ApprovalRequested).await;
    let asked = setup.mailbox.take();
    assert_eq!(asked.keys().collect::<Vec<_>>(), ["alice@example.com", "bob@example.com"]);
    let first = header(&asked["bob@example.com"], "Message-ID").expect("an id");
    assert_ne!(header(&asked["alice@example.com"], "Message-ID"), Some(first));
    setup.send("n1", NoticeEvent::ApprovalRequested).await;
    assert!(setup.mailbox.take().is_empty(), "the same notice is sent once");
    setup.desk.put(Approval { state: ApprovalState::Denied, ..setup.asked.clone() });
    setup.send("n2", NoticeEvent::ApprovalRequested).await;
    assert!(setup.mailbox.take().is_empty(), "it is settled");
    setup.send("n3", NoticeEvent::ApprovalSettled).await;
    let outcomes = setup.mailbox.take();
    let outcome = &outcomes["bob@example.com"];
    assert_eq!(header(outcome, "In-Reply-To"), Some(first));
    assert_eq!(header(outcome, "References"), Some(first));
    assert!(outcome.contains("Denied") && !outcome.contains("/l/"), "{outcome}");
    assert_eq!(outcomes.len(), 2);
}

#[tokio::test]
async fn a_link_asks_first_and_then_decides_once_as_its_recipient() {
    let mut setup = Setup::new().await;
    let [approve, deny] = setup.tokens().await;
    for _ in 0..2 {
        let page = setup.email.show_link(&approve, &setup.desk).await.expect("a page");
        assert!(matches!(&page, LinkPage::Ask { approves: true, .. }), "{page:?}");
        let html = page.html();
        assert!(html.contains("method=\"post\"") && !html.contains("<script"), "{html}");
        assert!(setup.desk.votes.lock().expect("no panic").is_empty(), "a GET changes nothing");
    }
    let page = setup.email.use_link(&approve, None, &setup.desk).await.expect("a vote");
    assert!(matches!(page, LinkPage::Counted(_)), "{page:?}");
    {
        let votes = setup.desk.votes.lock().expect("no panic");
        let [(by, vote)] = &votes[..] else { panic!("one vote") };
        assert_eq!((by.by.user.as_str(), by.how), ("alice", fermata_tools::DecisionChannel::Email));
        assert_eq!((vote.approved, vote.input_hash.as_ref()), (true, Some(&setup.asked.input_hash)));
    }
    for token in [&approve, &deny] {
        let late = setup.email.use_link(token, None, &setup.desk).await;
        assert!(matches!(late, Err(LinkError::Settled(_))), "{late:?}");
    }
    setup.desk.put(setup.asked.clone());
    let again = setup.email.use_link(&approve, None, &setup.desk).await;
    assert!(matches!(again, Err(LinkError::Used)), "{again:?}");
}

#[tokio::test]
async fn a_link_counts_only_for_its_input_its_channel_and_who_may_decide() {
    let mut setup = Setup::new().await;
    let [approve, _] = setup.tokens().await;
    setup.desk.put(Approval { input_hash: "another".into(), ..setup.asked.clone() });
    let changed = setup.email.use_link(&approve, None, &setup.desk).await;
    assert!(matches!(changed, Err(LinkError::Changed)), "{changed:?}");
    setup.desk.put(approval(&[Approver::User(Pattern::new("bob"))]));
    let not_hers = setup.email.use_link(&approve, None, &setup.desk).await;
    assert!(matches!(not_hers, Err(LinkError::NotYours)), "{not_hers:?}");
    let unknown = setup.email.use_link("a token", None, &setup.desk).await;
    assert!(matches!(unknown, Err(LinkError::Unknown)), "{unknown:?}");
    assert!(setup.desk.votes.lock().expect("no panic").is_empty());
}

#[test]
fn everything_on_a_page_is_escaped() {
    let mut asked = approval(&[]);
    let evil = "<script>\"'&";
    (asked.tool, asked.title, asked.description) = (evil.into(), Some(evil.into()), Some(evil.into()));
    (asked.input_text, asked.reason) = (evil.into(), Some(evil.into()));
    asked.requested_by = Owner::new(evil);
    let page = LinkPage::Ask { approval: Box::new(asked.clone()), approves: true };
    for html in
        [page.html(), LinkError::Settled(Box::new(asked)).html(), LinkError::Refused(evil.into()).html()]
    {
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;&quot;&#39;&amp;"), "{html}");
    }
}
