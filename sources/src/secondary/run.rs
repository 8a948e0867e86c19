//! The I/O around [`Step`]: questions over TCP, answers back.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodens_wire::rdata::{self, Soa};
use nodens_wire::{Builder, Compressor, Flags, Name, Rclass, Rtype, Section};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{sleep_until, timeout};

use super::collect::{Collect, Progress, reply};
use super::step::{Answer, Step, Todo};
use super::{Event, Settings};
use crate::Record;
use crate::{Level, Log};

/// How long a connection may take to come about.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long the next message may take.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// How long a whole zone may take.
const ZONE_TIME: Duration = Duration::from_secs(1_800);

/// Whom a zone listens to beside its primaries.
#[derive(Clone, Debug)]
pub struct Calls {
    /// It is to look now.
    pub notified: Arc<Notify>,
    /// It asks a primary while it holds one of these.
    pub turns: Arc<Semaphore>,
}

/// Keeps a zone as new as its primaries', until nobody receives any more.
pub async fn run(settings: Settings, seed: u64, calls: Calls, events: mpsc::Sender<Event>, log: Log) {
    let zone = settings.zone.as_name();
    let mut step = Step::new(Instant::now(), seed);
    let mut ids = seed;
    loop {
        let todo = step.todo(Instant::now());
        let asks = matches!(todo, Todo::AskSerial | Todo::Fetch);
        // It is never closed.
        let _turn = if asks { calls.turns.acquire().await.ok() } else { None };
        match todo {
            Todo::Wait(until) => {
                tokio::select! {
                    () = sleep_until(until.into()) => {}
                    () = calls.notified.notified() => step.notified(Instant::now()),
                }
            }
            Todo::Expire => {
                step.expired();
                log(
                    Level::Warning,
                    &format!("zone {zone} has expired: no primary can be asked for it"),
                );
                if events.send(Event::Expired).await.is_err() {
                    return;
                }
            }
            Todo::AskSerial => {
                let mut answer = Answer::Nobody;
                for &primary in &settings.primaries {
                    ids = crate::backoff::scatter(ids, 1);
                    match serial(zone, primary, ids as u16).await {
                        Ok(answered) => answer = answered,
                        Err(error) => {
                            log(Level::Warning, &format!("SOA of {zone} from {primary}: {error}"));
                            continue;
                        }
                    }
                    break;
                }
                step.answered(Instant::now(), answer);
            }
            Todo::Fetch => {
                ids = crate::backoff::scatter(ids, 1);
                match fetch_any(zone, &settings.primaries, ids as u16).await {
                    Ok((records, soa, primary)) => {
                        let Ok(soa) = Soa::parse(&soa) else {
                            step.not_fetched(Instant::now());
                            continue;
                        };
                        step.fetched(Instant::now(), &soa);
                        log(
                            Level::Info,
                            &format!("Transferred: {zone} from {primary}, serial {}", soa.serial),
                        );
                        if events.send(Event::Fetched(records)).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        let delay = step.not_fetched(Instant::now());
                        let text = format!("All '{zone}' masters failed to transfer, retrying in {delay:?}: {error}");
                        log(Level::Warning, &text);
                    }
                }
            }
        }
    }
}

type Zone = (Vec<Record>, Box<[u8]>, SocketAddr);

/// The zone from the first primary that gives it.
async fn fetch_any(zone: Name<'_>, primaries: &[SocketAddr], id: u16) -> Result<Zone, String> {
    let mut errors = Vec::new();
    for &primary in primaries {
        let fetched = timeout(ZONE_TIME, fetch(zone, primary, id)).await;
        match fetched.unwrap_or_else(|_| Err("it takes too long".to_owned())) {
            Ok((records, soa)) => return Ok((records, soa, primary)),
            Err(error) => errors.push(format!("{primary}: {error}")),
        }
    }
    Err(errors.join("; "))
}

async fn fetch(zone: Name<'_>, primary: SocketAddr, id: u16) -> Result<(Vec<Record>, Box<[u8]>), String> {
    let mut stream = ask(zone, Rtype::AXFR, primary, id)
        .await
        .map_err(|error| error.to_string())?;
    let mut collect = Collect::new(zone, id);
    let mut message = Vec::new();
    loop {
        next(&mut stream, &mut message)
            .await
            .map_err(|error| error.to_string())?;
        if collect.message(&message)? == Progress::Whole {
            return Ok(collect.into_records());
        }
    }
}

async fn serial(zone: Name<'_>, primary: SocketAddr, id: u16) -> io::Result<Answer> {
    let mut stream = ask(zone, Rtype::SOA, primary, id).await?;
    let mut message = Vec::new();
    next(&mut stream, &mut message).await?;
    Ok(serial_in(zone, &message, id).map_or(Answer::Odd, Answer::Serial))
}

fn serial_in(zone: Name<'_>, bytes: &[u8], id: u16) -> Option<u32> {
    let message = reply(bytes, id).ok()?;
    let is_soa = |record: &nodens_wire::Record<'_>| {
        record.section == Section::Answer && record.rtype == Rtype::SOA && record.owner.to_buf().as_name() == zone
    };
    let soa = message.records().filter_map(Result::ok).find(is_soa)?;
    let mut room = [0; 2 * 255 + 20];
    let data = rdata::unpack(Rtype::SOA, bytes, soa.rdata_at, soa.rdata.len(), &mut room).ok()?;
    Some(Soa::parse(data).ok()?.serial)
}

async fn ask(zone: Name<'_>, rtype: Rtype, primary: SocketAddr, id: u16) -> io::Result<TcpStream> {
    let (mut room, mut names) = ([0; 512], Compressor::new());
    let mut message = Builder::new(&mut room, 512, &mut names);
    message.header(id, Flags(0));
    // A name and twelve bytes fit.
    let _ = message.question(zone, rtype, Rclass::IN);
    let len = message.finish();
    let framed = [&(len as u16).to_be_bytes(), &room[..len]].concat();
    let in_time = async {
        let mut stream = TcpStream::connect(primary).await?;
        stream.write_all(&framed).await?;
        Ok(stream)
    };
    timeout(CONNECT_TIME, in_time).await.unwrap_or_else(|_| Err(late()))
}

/// Reads the next message of a stream.
async fn next(stream: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    let in_time = async {
        let len = stream.read_u16().await?;
        message.resize(len.into(), 0);
        stream.read_exact(message).await.map(drop)
    };
    timeout(MESSAGE_TIME, in_time).await.unwrap_or_else(|_| Err(late()))
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")
}
