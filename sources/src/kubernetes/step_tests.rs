use super::*;
use crate::kubernetes::decode::Value;
use crate::kubernetes::{Pod, Service, ServiceKind};

fn service(port: u16) -> Value {
    let port = crate::kubernetes::Port {
        name: "http".into(),
        protocol: "tcp".into(),
        number: port,
    };
    Value::Service(Service {
        kind: ServiceKind::Headless,
        ports: [port].into(),
        external: Box::default(),
    })
}

fn object(name: &str, value: Option<Value>) -> Object {
    Object {
        key: object_key(&format!("orchard/{name}")),
        value,
        ends: false,
        bad: None,
    }
}

/// `web:80` is a Service of one port, `web!:80` a bad one, `web` one that has nothing to say.
fn parse(text: &str) -> Object {
    let Some((name, port)) = text.split_once(':') else {
        return object(text, None);
    };
    let is_bad = name.ends_with('!');
    Object {
        bad: is_bad.then(|| "odd".to_owned()),
        ..object(name.trim_end_matches('!'), Some(service(port.parse().unwrap())))
    }
}

fn shown(changes: Vec<Change>) -> String {
    let texts = changes.into_iter().map(|change| match change {
        Change::Service(key, None) => format!("-{}", key.name),
        Change::Service(key, Some(service)) => format!("{}:{}", key.name, service.ports[0].number),
        Change::Pod(key, None) => format!("-{}", key.name),
        Change::Pod(key, Some(pod)) => format!("{}:{}", key.name, pod.addresses[0]),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Feeds replies and shows what each one leads to.
///
/// `+web:80@3` added, `-web@4` deleted, `b@5` bookmark, `whole@6` the end of a stream's list, `page web:80 a:1 @7 more`,
/// `ended 30`, `expired`, `old` for a server that does not know streams, `broken`.
fn feed(step: &mut Step, reply: &str) -> String {
    let (word, rest) = reply.split_once(' ').unwrap_or((reply, ""));
    let broken = || "away".to_owned();
    let at = |text: &str| {
        let (text, version) = text.split_once('@').unwrap();
        (text.to_owned(), version.to_owned())
    };
    let response = match word {
        "ended" => Response::Ended {
            lived: Duration::from_secs(rest.parse().unwrap()),
        },
        "expired" => Response::Failed(Failure::Expired),
        "old" => Response::Failed(Failure::Unsupported(broken())),
        "broken" => Response::Failed(Failure::Broken(broken())),
        "silent" => Response::Failed(Failure::Silent),
        "denied" => Response::Failed(Failure::Denied(broken())),
        "page" => {
            let (objects, end) = rest.split_once('@').unwrap();
            let (version, token) = end.split_once(' ').unwrap_or((end, ""));
            Response::Page {
                objects: objects.split_whitespace().map(parse).collect(),
                version: version.to_owned(),
                token: (!token.is_empty()).then(|| token.to_owned()),
            }
        }
        _ => match (word.split_at(1), at(word)) {
            (("+", rest), (_, version)) => Response::Changed {
                object: parse(&at(rest).0),
                version,
            },
            (("-", rest), (_, version)) => Response::Deleted {
                key: object_key(&format!("orchard/{}", at(rest).0)),
                version,
            },
            (_, (name, version)) => Response::Bookmark {
                version,
                whole: name == "whole",
            },
        },
    };
    let mut changes = Vec::new();
    let then = step.apply(response, &mut changes);
    let asked = match step.request() {
        Request::Stream => "stream".to_owned(),
        Request::Page { token } => format!("page {}", token.unwrap_or_default()),
        Request::Watch { version } => format!("watch {version}"),
    };
    let then = match then {
        Then::Continue => "",
        Then::Ask => "ask ",
        Then::Wait => "wait ",
    };
    format!("{} | {then}{}", shown(changes), asked.trim_end())
}

#[track_caller]
fn check(story: &[(&str, &str)]) -> Step {
    let mut step = Step::new(Kind::Services);
    for (reply, expected) in story {
        assert_eq!(feed(&mut step, reply).trim(), *expected, "{reply}");
    }
    step
}

#[test]
fn a_streamed_list_and_the_watch_behind_it() {
    let step = check(&[
        ("+web:80@5", "web:80 | stream"),
        ("+db:1@3", "db:1 | stream"),
        ("b@6", "| stream"),
        ("whole@7", "| ask watch 7"),
        ("+web:81@8", "web:81 | watch 8"),
        ("+web:81@9", "| watch 9"),
        ("-db@10", "-db | watch 10"),
        ("-db@11", "| watch 11"),
        ("b@12", "| watch 12"),
        ("ended 30", "| ask watch 12"),
    ]);
    assert_eq!((step.len(), step.lists()), (1, 1));
}

#[test]
fn pages_where_the_server_is_old() {
    check(&[
        ("old", "| ask page"),
        ("page web:80 db:1 @7 next", "web:80 db:1 | ask page next"),
        ("page api:2 @7", "api:2 | ask watch 7"),
        ("expired", "| wait page"),
        ("page web:80 @9 next", "| ask page next"),
        ("page api:3 @9", "api:3 -db | ask watch 9"),
    ]);
}

#[test]
fn a_list_of_what_is_known_tells_nothing() {
    check(&[
        ("+web:80@5", "web:80 | stream"),
        ("+db:1@3", "db:1 | stream"),
        ("whole@7", "| ask watch 7"),
        ("expired", "| wait stream"),
        ("+db:1@3", "| stream"),
        ("+web:80@5", "| stream"),
        ("whole@70", "| ask watch 70"),
    ]);
}

#[test]
fn what_a_list_does_not_name_is_gone_when_it_is_whole_and_not_before() {
    check(&[
        ("+web:80@5", "web:80 | stream"),
        ("+db:1@3", "db:1 | stream"),
        ("whole@7", "| ask watch 7"),
        ("+api:2@8", "api:2 | watch 8"),
        ("expired", "| wait stream"),
        ("+web:80@5", "| stream"),
        // Half a list is no list; what it named does not count for the next one.
        ("broken", "| wait stream"),
        ("+api:2@8", "| stream"),
        ("ended 0", "| wait stream"),
        ("+db:4@20", "db:4 | stream"),
        ("+web:80@5", "| stream"),
        ("whole@21", "-api | ask watch 21"),
    ]);
}

#[test]
fn a_token_of_a_page_expires() {
    check(&[
        ("old", "| ask page"),
        ("page web:80 @7 next", "web:80 | ask page next"),
        ("expired", "| wait page"),
        ("page db:1 @9", "db:1 -web | ask watch 9"),
    ]);
}

#[test]
fn a_watch_goes_on_from_the_last_version_that_was_heard() {
    check(&[
        ("whole@7", "| ask watch 7"),
        ("+web:80@8", "web:80 | watch 8"),
        ("broken", "| wait watch 8"),
        ("denied", "| wait watch 8"),
        ("ended 0", "| wait watch 8"),
        ("b@9", "| watch 9"),
        ("ended 0", "| ask watch 9"),
        // A server that ends every watch at once is not asked without a pause.
        ("ended 0", "| wait watch 9"),
        ("ended 1", "| ask watch 9"),
        // This is for streams of all objects alone.
        ("old", "| wait watch 9"),
    ]);
}

#[test]
fn a_server_that_never_says_that_its_stream_is_whole_is_asked_for_pages() {
    check(&[
        ("+web:80@5", "web:80 | stream"),
        ("ended 3", "| wait stream"),
        ("ended 290", "| wait page"),
        ("page web:80 @9", "| ask watch 9"),
    ]);
    check(&[
        ("+web:80@5", "web:80 | stream"),
        ("silent", "| ask page"),
        ("silent", "| wait page"),
        ("page web:80 @9", "| ask watch 9"),
        ("silent", "| wait watch 9"),
    ]);
}

#[test]
fn an_object_that_has_nothing_more_to_say_is_gone() {
    let step = check(&[
        ("+web:80@5", "web:80 | stream"),
        ("+db@6", "| stream"),
        ("whole@7", "| ask watch 7"),
        ("+web@8", "-web | watch 8"),
        ("+web@9", "| watch 9"),
    ]);
    assert_eq!(step.len(), 0);
}

#[test]
fn bad_objects_are_counted_as_long_as_they_are_there() {
    let mut step = check(&[
        ("+web!:80@5", "web:80 | stream"),
        ("+db!:1@6", "db:1 | stream"),
        ("+api!:2@6", "api:2 | stream"),
        ("whole@7", "| ask watch 7"),
    ]);
    for (reply, bad) in [
        ("+web:80@8", 2),
        ("+web!:80@9", 3),
        ("-db@10", 2),
        ("expired", 2),
        ("+api!:2@6", 2),
        ("whole@11", 1),
    ] {
        feed(&mut step, reply);
        assert_eq!(step.bad(), bad, "{reply}");
    }
}

#[test]
fn a_pod_that_ends_keeps_its_address_and_gets_none() {
    let pod = |name: &str, address: &str, ends: bool| Object {
        ends,
        ..object(
            name,
            Some(Value::Pod(Pod {
                addresses: [address.parse().unwrap()].into(),
                labels: Box::default(),
            })),
        )
    };
    let mut step = Step::new(Kind::Pods);
    let mut tell = |object: Object| {
        let mut changes = Vec::new();
        let version = "1".to_owned();
        step.apply(Response::Changed { object, version }, &mut changes);
        shown(changes)
    };
    assert_eq!(tell(pod("a", "192.0.2.1", false)), "a:192.0.2.1");
    assert_eq!(tell(pod("b", "192.0.2.2", true)), "");
    let mut changes = Vec::new();
    let mut end = |step: &mut Step| {
        let version = "7".to_owned();
        step.apply(Response::Bookmark { version, whole: true }, &mut changes);
        shown(std::mem::take(&mut changes))
    };
    assert_eq!(end(&mut step), "");
    let changed = |step: &mut Step, object: Object| {
        let mut changes = Vec::new();
        let version = "8".to_owned();
        step.apply(Response::Changed { object, version }, &mut changes);
        shown(changes)
    };
    assert_eq!(changed(&mut step, pod("a", "192.0.2.9", true)), "");
    step.apply(Response::Failed(Failure::Expired), &mut Vec::new());
    assert_eq!(changed(&mut step, pod("a", "192.0.2.9", true)), "");
    assert_eq!(end(&mut step), "");
    assert_eq!(step.len(), 1);
    step.apply(Response::Failed(Failure::Expired), &mut Vec::new());
    assert_eq!(end(&mut step), "-a");
}
