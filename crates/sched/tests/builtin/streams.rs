//! Stream-based minRTT: bindings worked out by hand.

use mpquic_sched::{
    Acked, Data, Decision, PathId, PathStatus, PathUpdate, PathUpdateKind, PathView, QueueView,
    Scheduler, StreamId, StreamMinRtt, StreamMinRttConfig, StreamUpdate, StreamUpdateKind,
    StreamView,
};

use crate::{Asked, loaded, unsent};

fn id(index: u32) -> StreamId {
    StreamId::from(mpquic_sched::VarInt::from_u32(4 * index))
}

fn stream(index: u32) -> StreamView {
    StreamView::new(id(index), 0, 10_000)
}

fn both() -> [PathView; 2] {
    [loaded(0, 20, 10, 0), loaded(1, 60, 10, 0)]
}

/// The two paths, one of them full.
fn without(slot: usize) -> [PathView; 2] {
    let mut paths = both();
    paths[slot].can_send = false;
    paths[slot].in_flight = paths[slot].cwnd;
    paths
}

type StreamsAsked = Asked<StreamMinRtt>;

fn ask(
    asked: &mut StreamsAsked,
    paths: &[PathView],
    streams: &[StreamView],
) -> Option<(usize, u64)> {
    match asked.next_of(paths, &unsent(1 << 20), streams) {
        Some((slot, Data::Stream(id))) => Some((slot, id.index())),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn fresh() -> StreamsAsked {
    Asked::new(StreamMinRtt::default())
}

#[test]
fn a_stream_stays_where_its_first_bytes_went() {
    let mut asked = fresh();
    let streams = [stream(0), stream(1)];
    assert_eq!(ask(&mut asked, &both(), &streams), Some((0, 0)));
    // The fast path is full: the first stream waits for it, the second one is bound to the slow one.
    assert_eq!(ask(&mut asked, &without(0), &streams), Some((1, 1)));
    assert_eq!(ask(&mut asked, &without(0), &streams[..1]), None);
    assert_eq!(ask(&mut asked, &without(1), &streams[1..]), None);
    // Each path serves its own.
    assert_eq!(ask(&mut asked, &without(1), &streams), Some((0, 0)));
    assert_eq!(ask(&mut asked, &without(0), &streams), Some((1, 1)));
    // The order is the transport's.
    let turned = [stream(1), stream(0)];
    assert_eq!(ask(&mut asked, &both(), &turned), Some((1, 1)));
    // No load is counted: all that come go to the fast path.
    for index in 2..30 {
        let next = ask(&mut asked, &both(), &[stream(index)]);
        assert_eq!(next, Some((0, u64::from(index))));
    }
}

#[test]
fn a_pacer_is_no_reason_to_bind_a_stream_elsewhere() {
    let mut asked = fresh();
    let mut paced = both();
    paced[0].can_send = false;
    paced[0].next_release = Some(asked.start + std::time::Duration::from_millis(1));
    assert_eq!(ask(&mut asked, &paced, &[stream(0)]), None);
    assert_eq!(ask(&mut asked, &both(), &[stream(0)]), Some((0, 0)));
}

#[test]
fn fewest_streams_come_first_in_the_variant() {
    let config = StreamMinRttConfig {
        fewest_streams: true,
    };
    let mut asked = Asked::new(StreamMinRtt::new(&config));
    for (index, slot) in [0, 1, 0, 1].into_iter().enumerate() {
        let streams = [stream(index as u32)];
        assert_eq!(
            ask(&mut asked, &both(), &streams),
            Some((slot, index as u64))
        );
    }
    // Those that are over are not bound: stream 1 was on the slow path, stream 3 too.
    for index in [1, 3] {
        let over = StreamUpdate::new(id(index), StreamUpdateKind::FullyAcked);
        asked.scheduler.on_stream(&over);
        asked.scheduler.on_stream(&over);
    }
    for (index, slot) in [(4, 1), (5, 1), (6, 0)] {
        let next = ask(&mut asked, &both(), &[stream(index)]);
        assert_eq!(next, Some((slot, u64::from(index))));
    }
}

#[test]
fn what_was_lost_stays_on_its_path_and_goes_first() {
    let mut asked = fresh();
    let mut lossy = stream(1);
    lossy.retransmittable = 1200;
    // New data before it in the order.
    let streams = [stream(0), lossy];
    assert_eq!(ask(&mut asked, &both(), &streams[..1]), Some((0, 0)));
    assert_eq!(ask(&mut asked, &without(0), &streams[1..]), Some((1, 1)));
    assert_eq!(ask(&mut asked, &both(), &streams), Some((1, 1)));
    lossy.unsent = 0;
    assert_eq!(ask(&mut asked, &without(1), &[lossy]), None);
}

#[test]
fn a_path_that_fails_gives_its_streams_away() {
    let over = |kind| PathUpdate::new(both()[0].index, PathId::ZERO, fresh().now, kind);
    let status = |mut path: PathView| {
        path.status = PathStatus::Backup;
        path
    };
    let suspect = |mut path: PathView| {
        path.suspect = true;
        path
    };
    let closed = |mut path: PathView| {
        path.open = false;
        path
    };
    let breaks: [&dyn Fn(PathView) -> PathView; 3] = [&status, &suspect, &closed];
    for change in breaks {
        let mut asked = fresh();
        let [fast, slow] = both();
        let third = loaded(2, 90, 10, 0);
        let well = [fast, slow, third];
        assert_eq!(ask(&mut asked, &well, &[stream(0)]), Some((0, 0)));
        let mut broken = well.clone();
        broken[0] = change(broken[0].clone());
        // A detour, and only one: it is full next time.
        assert_eq!(ask(&mut asked, &broken, &[stream(0)]), Some((1, 0)));
        let mut busy = broken.clone();
        busy[1].can_send = false;
        busy[1].in_flight = busy[1].cwnd;
        assert_eq!(ask(&mut asked, &busy, &[stream(0)]), None);
        assert_eq!(ask(&mut asked, &broken, &[stream(0)]), Some((1, 0)));
        // Back where it belongs.
        assert_eq!(ask(&mut asked, &well, &[stream(0)]), Some((0, 0)));
        // The end of the path is for good.
        asked.scheduler.on_path(&over(PathUpdateKind::Abandoned));
        assert_eq!(ask(&mut asked, &broken, &[stream(0)]), Some((1, 0)));
        assert_eq!(ask(&mut asked, &well, &[stream(0)]), Some((1, 0)));
    }
    // The slot's next path has no streams.
    let config = StreamMinRttConfig {
        fewest_streams: true,
    };
    let mut asked = Asked::new(StreamMinRtt::new(&config));
    assert_eq!(ask(&mut asked, &both(), &[stream(0)]), Some((0, 0)));
    asked.scheduler.on_path(&over(PathUpdateKind::Abandoned));
    assert_eq!(ask(&mut asked, &both(), &[stream(1)]), Some((0, 1)));
    assert_eq!(ask(&mut asked, &both(), &[stream(0)]), Some((1, 0)));
}

#[test]
fn one_path_binds_nothing() {
    let mut asked = fresh();
    let alone = &both()[..1];
    let queue = unsent(1 << 20);
    let next = asked.next_of(alone, &queue, &[stream(0)]);
    assert_eq!(next, Some((0, Data::Next)));
    // The second path comes. A stream that has begun is bound to the faster one, full or not; a new
    // one is not.
    let mut begun = stream(0);
    begun.sent = 1200;
    assert_eq!(ask(&mut asked, &without(0), &[begun]), None);
    assert_eq!(
        ask(&mut asked, &without(0), &[begun, stream(1)]),
        Some((1, 1))
    );
    assert_eq!(ask(&mut asked, &without(1), &[begun]), Some((0, 0)));
    begun.id = id(2);
    assert_eq!(ask(&mut asked, &without(1), &[begun]), Some((0, 2)));
}

#[test]
fn control_goes_first_and_alone() {
    let mut asked = fresh();
    let mut queue = unsent(1 << 20);
    queue.control = true;
    let streams = [stream(0)];
    let next = asked.next_of(&both(), &queue, &streams);
    assert_eq!(next, Some((0, Data::Control)));
    let next = asked.next_of(&without(0), &queue, &streams);
    assert_eq!(next, Some((1, Data::Control)));
    // With nothing to be kept apart from, as it comes.
    let mut only = QueueView::default();
    only.control = true;
    assert_eq!(asked.next_of(&both(), &only, &[]), Some((0, Data::Next)));
    // A transport that shows no streams is not left waiting.
    let next = asked.next_of(&both(), &unsent(1), &[]);
    assert_eq!(next, Some((0, Data::Next)));
}

#[test]
fn a_stream_with_nothing_for_its_path_holds_up_no_other() {
    let mut asked = fresh();
    let streams = [stream(0), stream(1)];
    let queue = unsent(1 << 20);
    let choice = |asked: &mut StreamsAsked, streams: &[StreamView]| match asked.decide(
        &both(),
        &queue,
        streams,
    ) {
        Decision::Send {
            data: Data::Stream(id),
            ..
        } => Some(id.index()),
        _ => None,
    };
    // Nothing leaves for the first one: the second one's turn; and again.
    assert_eq!(choice(&mut asked, &streams), Some(0));
    assert_eq!(choice(&mut asked, &streams), Some(1));
    assert_eq!(choice(&mut asked, &streams), None);
    // Either changes, or something happens.
    let mut changed = streams;
    changed[0].unsent += 1;
    assert_eq!(choice(&mut asked, &changed), Some(0));
    let slot = both()[0].index;
    let acked = Acked::new(slot, asked.now, asked.start, 1235, None, None, 0);
    asked.scheduler.on_acked(&acked);
    assert_eq!(choice(&mut asked, &streams), Some(0));
    // A path that nothing will wake up keeps no stream.
    let mut mute = without(0);
    mute[0].in_flight = 0;
    assert_eq!(ask(&mut fresh(), &mute, &streams), Some((1, 0)));
    let mut asked = fresh();
    assert_eq!(ask(&mut asked, &both(), &streams), Some((0, 0)));
    assert_eq!(ask(&mut asked, &mute, &streams), Some((1, 0)));
}
