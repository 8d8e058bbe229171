//! Settings of the transport, the same for clients and servers; checked here, applied elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mpquic_sched_core::{Arrival, IntoSchedulerFactory, PathMemory, SchedulerFactory, Side};
use mpquic_wire::packet::MIN_RESETTABLE;

use super::{
    AckFrequencyConfig, CarefulResumeConfig, ConfigError, DAY, EarlyPathData, MIN_KEEP_ALIVE,
    MIN_WINDOW, PathStart,
};
use crate::congestion::{CongestionControl, ControllerFactory, InitialWindow, SlowStart};
use crate::{Observer, ObserverFactory, limits};

/// Settings of the transport, for clients and servers.
///
/// No value makes a connection hang, panic or flood the network. Zero turns off what can be off; where it makes no sense, there
/// is a least value, which a smaller one becomes; what is too large becomes the largest. Each setting says which it is, and the
/// guide has a table of all (`docs/guide/settings.md`). A setting that returns a `Result` refuses.
///
/// ```
/// use std::time::Duration;
/// use mpquic_proto::TransportConfig;
///
/// let mut config = TransportConfig::default();
/// config
///     .max_idle_timeout(Some(Duration::from_secs(10)))
///     .max_paths(4);
/// ```
#[derive(Clone)]
pub struct TransportConfig {
    pub(crate) max_concurrent_bidi_streams: u64,
    pub(crate) max_concurrent_uni_streams: u64,
    pub(crate) max_idle_timeout: Option<Duration>,
    pub(crate) keep_alive_interval: Option<Duration>,
    pub(crate) stream_receive_window: u64,
    pub(crate) receive_window: u64,
    pub(crate) window_auto_tuning: bool,
    pub(crate) send_window: u64,
    pub(crate) min_rate: Option<(u64, Duration)>,
    pub(crate) datagram_receive_buffer: Option<usize>,
    pub(crate) datagram_send_buffer: usize,
    pub(crate) max_paths: u32,
    pub(crate) path_start: PathStart,
    pub(crate) early_path_data: EarlyPathData,
    pub(crate) initial_rtt: Duration,
    pub(crate) initial_mtu: u16,
    pub(crate) max_mtu: u16,
    pub(crate) link_mtu: bool,
    pub(crate) max_ack_delay: Duration,
    pub(crate) ack_frequency_config: Option<AckFrequencyConfig>,
    pub(crate) congestion: Arc<dyn ControllerFactory>,
    pub(crate) initial_window: InitialWindow,
    pub(crate) slow_start: Option<SlowStart>,
    pub(crate) path_memory: Option<Arc<dyn PathMemory>>,
    pub(crate) careful_resume: Option<CarefulResumeConfig>,
    pub(crate) scheduler: SchedulerFactory,
    pub(crate) tail_copies: bool,
    pub(crate) copy_budget: (u64, u8),
    pub(crate) pacing: bool,
    pub(crate) segmentation_offload: bool,
    pub(crate) ecn: bool,
    pub(crate) observers: Vec<ObserverFactory>,
}

impl TransportConfig {
    /// How many bidirectional streams the peer may have open at a time. Default 128; 0 is none, the most is 2^60.
    #[doc(alias = "max_concurrent_bi_streams")]
    pub fn max_concurrent_bidi_streams(&mut self, count: u64) -> &mut Self {
        self.max_concurrent_bidi_streams = count.min(1 << 60);
        self
    }

    /// How many unidirectional streams the peer may have open at a time. Default 128; 0 is none, the most is 2^60.
    pub fn max_concurrent_uni_streams(&mut self, count: u64) -> &mut Self {
        self.max_concurrent_uni_streams = count.min(1 << 60);
        self
    }

    /// How long nothing may be received before the connection is given up; the smaller of both
    /// sides' values holds. `None` is for ever, and so is less than a millisecond: the peer is told
    /// milliseconds, and 0 means none (RFC 9000 section 18.2). Default 30 s; more than a day counts
    /// as a day. A client that waits for data asks for it a few times, which puts the end off by as long at most; one
    /// whose data waits for the server's limits keeps the connection (RFC 9000 section 4.1).
    pub fn max_idle_timeout(&mut self, timeout: Option<Duration>) -> &mut Self {
        let timeout = timeout.filter(|timeout| timeout.as_millis() > 0);
        self.max_idle_timeout = timeout.map(|timeout| timeout.min(DAY));
        self
    }

    /// Sends a PING on each path that has been silent for this long. Default `None`: never, and so is zero. Less than 50 ms
    /// counts as 50 ms: no NAT forgets sooner. More than a day counts as a day.
    ///
    /// These PINGs, and the probes of a path on which nothing is acknowledged, have at least 43 bytes then. A peer that was
    /// killed and started again with the same [`reset_key`](crate::EndpointConfig::reset_key) answers them with a stateless
    /// reset (RFC 9000 section 10.3), which ends the connection at once; without this setting, a client that only receives
    /// notices at its idle timeout.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mpquic_proto::TransportConfig;
    ///
    /// let mut config = TransportConfig::default();
    /// config.keep_alive_interval(Some(Duration::from_secs(10)));
    /// ```
    pub fn keep_alive_interval(&mut self, interval: Option<Duration>) -> &mut Self {
        let interval = interval.filter(|interval| !interval.is_zero());
        self.keep_alive_interval = interval.map(|interval| interval.clamp(MIN_KEEP_ALIVE, DAY));
        self
    }

    /// How many bytes the peer may send on one stream before the application reads them. The
    /// window starts smaller and grows up to this, see [`window_auto_tuning`](Self::window_auto_tuning).
    /// Default 16 MiB; less than 512 bytes counts as 512, since with none the peer would wait for ever.
    pub fn stream_receive_window(&mut self, bytes: u64) -> &mut Self {
        self.stream_receive_window = bytes.max(MIN_WINDOW);
        self
    }

    /// How many bytes the peer may send on all streams together before the application reads them.
    /// The window starts smaller and grows up to this.
    /// Default 24 MiB; less than 512 bytes counts as 512.
    ///
    /// Data counts on whichever stream it waits. An application that reads one stream to its end before it touches the
    /// next may wait for ever, if the others have used all of this up.
    pub fn receive_window(&mut self, bytes: u64) -> &mut Self {
        self.receive_window = bytes.max(MIN_WINDOW);
        self
    }

    /// Whether receive windows start small and grow as they are used, and the send window with what the
    /// paths can carry. Default true. With `false` they have their full size from the start: for trusted
    /// peers, and for measurements with a fixed window.
    pub fn window_auto_tuning(&mut self, enabled: bool) -> &mut Self {
        self.window_auto_tuning = enabled;
        self
    }

    /// How many written bytes may be unacknowledged, over all streams. Default 16 MiB; less than 512 bytes counts as 512, since
    /// with none a writer would wait for ever. As long as the paths
    /// carry little, it is less: what they could carry in four times their longest round trip, at least
    /// 512 KiB; see [`window_auto_tuning`](Self::window_auto_tuning). The endpoint has a limit over all its
    /// connections, too: [`EndpointConfig::send_memory`](crate::EndpointConfig::send_memory).
    pub fn send_window(&mut self, bytes: u64) -> &mut Self {
        self.send_window = bytes.max(MIN_WINDOW);
        self
    }

    /// Closes a connection whose peer takes fewer than so many bytes per second of what was written, over
    /// a whole `period` in which something waited for it, or for credit to be written: with
    /// [`ConnectionError::TooSlow`](crate::ConnectionError::TooSlow). It does not matter whether the peer
    /// reads slowly or the network carries little. Stops: readers that hold memory for hours with a byte
    /// now and then.
    ///
    /// Off by default, and with 0 bytes or a period of 0. A period of less than 100 ms counts as 100 ms, one of more than a day
    /// as a day.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mpquic_proto::TransportConfig;
    ///
    /// let mut config = TransportConfig::default();
    /// config.min_peer_rate(1000, Duration::from_secs(30));
    /// ```
    pub fn min_peer_rate(&mut self, bytes_per_second: u64, period: Duration) -> &mut Self {
        let on = bytes_per_second > 0 && !period.is_zero();
        let period = period.clamp(Duration::from_millis(100), DAY);
        self.min_rate = on.then_some((bytes_per_second, period));
        self
    }

    /// How many bytes of received datagrams are kept for the application. `None` or 0 turns datagrams off: the peer is told that
    /// none are taken (RFC 9221 section 3). Default 1 MiB.
    #[doc(alias = "datagram_receive_buffer_size")]
    pub fn datagram_receive_buffer(&mut self, bytes: Option<usize>) -> &mut Self {
        self.datagram_receive_buffer = bytes.filter(|bytes| *bytes > 0);
        self
    }

    /// How many bytes of datagrams may wait to be sent. Default 1 MiB; 0 turns sending off, with an error for who tries. One
    /// alone is taken whatever its size.
    #[doc(alias = "datagram_send_buffer_size")]
    pub fn datagram_send_buffer(&mut self, bytes: usize) -> &mut Self {
        self.datagram_send_buffer = bytes;
        self
    }

    /// How many paths may be open at a time, the first included. 1 turns multipath off. Default 8,
    /// at most [`limits::MAX_OPEN_PATHS`].
    pub fn max_paths(&mut self, count: u32) -> &mut Self {
        self.max_paths = count.clamp(1, limits::MAX_OPEN_PATHS as u32);
        self
    }

    /// From when a client may open further paths, and a server names connection IDs for them. Each side's
    /// setting is its own: a client that would open paths early waits for a server that names none early.
    /// Default [`PathStart::Complete`].
    pub fn path_start(&mut self, start: PathStart) -> &mut Self {
        self.path_start = start;
        self
    }

    /// Whose data may use a further path before it is validated, a round trip earlier. Each side's setting is its own. Default
    /// [`EarlyPathData::Client`].
    ///
    /// With [`EarlyPathData::Both`], a client makes room within the limit that holds for the server: after the first
    /// PATH_CHALLENGE of a path, it sends four full datagrams with nothing but a PING, once, and only to the server's address
    /// that carried the handshake.
    ///
    /// Where the client's token of an earlier connection says that it has received at the address before (RFC 9000
    /// section 8.1.3), a server sends an initial window ahead of the validation whatever is set here, and no more.
    pub fn early_path_data(&mut self, whose: EarlyPathData) -> &mut Self {
        self.early_path_data = whose;
        self
    }

    /// The RTT assumed before the first sample (RFC 9002 section 6.2.2). Default 333 ms. Less than 1 ms counts as 1 ms, the
    /// granularity of timers there; more than a day counts as a day.
    pub fn initial_rtt(&mut self, rtt: Duration) -> &mut Self {
        self.initial_rtt = rtt.clamp(Duration::from_millis(1), DAY);
        self
    }

    /// The UDP payload size assumed to pass on every path; at least 1200. Default 1200.
    ///
    /// # Errors
    ///
    /// Below 1200 (RFC 9000 section 14) or above 65527.
    #[doc(alias = "mtu_discovery_config")]
    pub fn initial_mtu(&mut self, bytes: u16) -> Result<&mut Self, ConfigError> {
        Self::check_mtu("initial_mtu", bytes)?;
        self.initial_mtu = bytes;
        self.max_mtu = self.max_mtu.max(bytes);
        Ok(self)
    }

    /// The largest UDP payload size that is probed for (RFC 8899); a value at or below the initial one turns probing off.
    ///
    /// Default: 1452 at first. Once a path has delivered 256 KiB, the search goes on up to what its link takes and the peer
    /// accepts, at most 9,188 bytes (what fits into 9,216 with IPv4, which is what switches take), if the driver knows the link
    /// ([`PathMut::set_link_mtu`](crate::PathMut::set_link_mtu)). A value that is set here is all that is probed for.
    ///
    /// # Errors
    ///
    /// Below 1200 (RFC 9000 section 14) or above 65527.
    #[doc(alias = "mtu_discovery_config")]
    #[doc(alias = "upper_bound")]
    pub fn max_mtu(&mut self, bytes: u16) -> Result<&mut Self, ConfigError> {
        Self::check_mtu("max_mtu", bytes)?;
        self.max_mtu = bytes;
        self.link_mtu = false;
        Ok(self)
    }

    fn check_mtu(name: &'static str, bytes: u16) -> Result<(), ConfigError> {
        if (1200..=65527).contains(&bytes) {
            return Ok(());
        }
        Err(ConfigError::OutOfRange {
            name,
            value: bytes.into(),
            expected: "1200 to 65527 bytes (RFC 9000 section 14)",
        })
    }

    /// The congestion controller: one of this crate by its name, or one of your own. Default:
    /// [`CongestionControl::Auto`], CUBIC where queues drop packets and BBRv3 while a path loses them by chance.
    ///
    /// ```
    /// use mpquic_proto::{CongestionControl, TransportConfig};
    ///
    /// let mut config = TransportConfig::default();
    /// config.congestion(CongestionControl::Bbr);
    /// config.congestion("olia".parse::<CongestionControl>()?);
    /// # Ok::<(), mpquic_proto::UnknownCongestionControl>(())
    /// ```
    ///
    /// [`Controller`](crate::congestion::Controller) shows how to write one.
    #[doc(alias = "congestion_controller_factory")]
    pub fn congestion(&mut self, factory: impl ControllerFactory) -> &mut Self {
        self.congestion = Arc::new(factory);
        self
    }

    /// The congestion window of a new path. Default: RFC 9002 section 7.2, about ten datagrams.
    ///
    /// ```
    /// use mpquic_proto::TransportConfig;
    /// use mpquic_proto::congestion::InitialWindow;
    ///
    /// let mut config = TransportConfig::default();
    /// assert!(config.initial_window(InitialWindow::Packets(32)).is_ok());
    /// assert!(config.initial_window(InitialWindow::Packets(1)).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Below two packets (RFC 9002 section 7.2), or beyond any path.
    pub fn initial_window(&mut self, window: InitialWindow) -> Result<&mut Self, ConfigError> {
        if let Some((value, expected)) = window.out_of_range() {
            return Err(ConfigError::OutOfRange {
                name: "initial_window",
                value,
                expected,
            });
        }
        self.initial_window = window;
        Ok(self)
    }

    /// To where a packet that begins at `start` and asks whether the peer is there is padded: who has lost the connection can
    /// answer with a stateless reset then. Where the application wants to know (`keep_alive_interval`); else, such packets are
    /// as small as they can be.
    //= specs/rfc9000.txt#section-10.3
    //# To achieve that end, the endpoint SHOULD ensure that all packets it sends are at least 22
    //# bytes longer than the minimum connection ID length that it requests the peer to include in
    //# its packets, adding PADDING frames as necessary.
    pub(crate) fn least_question(&self, start: usize) -> usize {
        match self.keep_alive_interval.is_some() {
            true => start + MIN_RESETTABLE,
            false => 0,
        }
    }

    /// How the window of a new path grows until its first congestion event. Default [`SlowStart::Train`]. BBR has a Startup of
    /// its own, which is that of its draft with `Classic` and `HyStartPlusPlus`.
    ///
    /// ```
    /// use mpquic_proto::TransportConfig;
    /// use mpquic_proto::congestion::SlowStart;
    ///
    /// let mut config = TransportConfig::default();
    /// config.slow_start(SlowStart::HyStartPlusPlus);
    /// ```
    pub fn slow_start(&mut self, algorithm: SlowStart) -> &mut Self {
        self.slow_start = Some(algorithm);
        self
    }

    /// What keeps the facts of paths from one connection to the next: the same for any number of connections, in this
    /// process and, if it is saved, in the next. Default `None`: each path begins as if it was the first.
    ///
    /// A path is looked up by the IPs at its two ends: on clients by both, on servers by the network of the client
    /// (/24 of IPv4, /48 of IPv6), of which a client changes the last bits often. Facts are left there when a path
    /// leaves slow start, and when it ends. See [`careful_resume`](Self::careful_resume) for what comes of them. A path
    /// that several connections in a row found to carry less than the initial window begins with what it carries, and
    /// with two packets at least. The scheduler is told what earlier connections saw of the bottleneck's rate and of the round trip
    /// ([`PathView::bottleneck`](mpquic_sched_core::PathView::bottleneck),
    /// [`PathView::saved_rtt`](mpquic_sched_core::PathView::saved_rtt)).
    ///
    /// A client keeps which of its paths brought most of what it received ([`SavedPath::carried`](mpquic_sched_core::SavedPath::carried)).
    /// If that was three fifths and more, its next connection over these paths begins there: with a [race](crate::RaceConfig), the first
    /// packets leave the others so much later (at most 50 ms) that the server's first answer comes there.
    ///
    /// The [clock](crate::EndpointConfig::clock) of the endpoint tells how old they are. Without one, they do not age.
    pub fn path_memory(&mut self, memory: Option<Arc<dyn PathMemory>>) -> &mut Self {
        self.path_memory = memory;
        self
    }

    /// How a path begins that the [memory](Self::path_memory) knows (RFC 9959). `None`: as any other. Default: careful
    /// resume as [`CarefulResumeConfig`] has it.
    pub fn careful_resume(&mut self, config: Option<CarefulResumeConfig>) -> &mut Self {
        self.careful_resume = config;
        self
    }

    /// The packet scheduler. Each connection gets its own, from a registry's `factory`, or from a function or closure that
    /// returns one, in a box or not. Default [`Arrival`].
    ///
    /// ```
    /// use mpquic_proto::TransportConfig;
    /// use mpquic_proto::sched::MinRtt;
    ///
    /// let mut config = TransportConfig::default();
    /// config.scheduler(MinRtt::default);
    /// config.scheduler(|| Box::new(MinRtt::default())); // the same
    /// ```
    pub fn scheduler<Kind>(&mut self, factory: impl IntoSchedulerFactory<Kind>) -> &mut Self {
        self.scheduler = factory.into_factory();
        self
    }

    /// Whether the last bytes of a transfer go on a second path too, if that delivers them sooner than the path that the
    /// scheduler chose. Default `true`.
    ///
    /// A path falls silent when nothing is left to send, and the transfer then waits for the slowest of the others. Copies
    /// take at most 64 KiB and a tenth of what the connection has delivered, and no more than 256 KiB and a fiftieth of it: a
    /// connection of many requests pays 2 % in the long run, and never more than the [budget](Self::copy_budget) of all
    /// copies. They go only where there is room in the window of a path that has nothing else to send. A stream that is not finished may go on: pauses in it take 64 KiB and a hundredth at most, and
    /// leave the end of it the rest. Between paths with smallest RTTs below 1 ms there are none: what is late there is late
    /// because of the hosts.
    ///
    /// The scheduler stays master of the paths: one that it has left alone for two round trips gets no copies, a backup path
    /// gets none of what an available one carries, and a scheduler that says which stream goes where
    /// ([`Data::Stream`](crate::sched::Data::Stream)) gets none at all. `false` leaves copies to the scheduler, as in other
    /// implementations.
    pub fn tail_copies(&mut self, enabled: bool) -> &mut Self {
        self.tail_copies = enabled;
        self
    }

    /// How much may be sent twice in all: so many bytes, and so many percent of the stream bytes that were sent for the first time.
    /// Default 64 KiB and 5 %.
    ///
    /// One purse for everything that is sent once more before it is taken for lost: the transport's
    /// [copies of the last bytes](Self::tail_copies), and what the default scheduler copies: what is late, what might miss its
    /// deadline, and now and then a packet on a path that was behind the queue of others, to see whether that is gone.
    /// Schedulers whose rule it is to send things twice take what they need
    /// ([`Scheduler::heeds_purse`](crate::sched::Scheduler::heeds_purse)). [`ConnectionStats::copies`](crate::ConnectionStats::copies)
    /// says what it went for.
    pub fn copy_budget(&mut self, bytes: u64, percent: u8) -> &mut Self {
        self.copy_budget = (bytes, percent);
        self
    }

    /// Whether packets are spread over the round trip (RFC 9002 section 7.7). Default `true`.
    ///
    /// Without it, whatever the congestion window allows leaves at once, and what overflows a queue by that is lost.
    /// RFC 9002 requires pacing or another limit on bursts, and there is no other one here: `false` is for
    /// measurements beside stacks that do not pace, not for networks.
    pub fn pacing(&mut self, enabled: bool) -> &mut Self {
        self.pacing = enabled;
        self
    }

    /// Whether the system may be asked to segment a [`Transmit`](crate::Transmit) of several datagrams. Default true. With
    /// false, who sends hands each datagram to the system by itself, and the receiver sees the same.
    pub fn segmentation_offload(&mut self, enabled: bool) -> &mut Self {
        self.segmentation_offload = enabled;
        self
    }

    /// How often the peer is asked to acknowledge what we send, if it can be asked (QUIC Acknowledgment
    /// Frequency). What the peer asks of us is done in any case. `None`: as RFC 9000 section 13.2 has it, every second packet.
    ///
    /// Default: as [`AckFrequencyConfig`] has it, but without the extension while there is more than one path, its controller goes
    /// by the rate that it measures, as BBRv3 does, or it delivers fewer than 32 packets per round trip.
    pub fn ack_frequency_config(&mut self, config: Option<AckFrequencyConfig>) -> &mut Self {
        self.ack_frequency_config = config;
        self
    }

    /// Whether packets are marked ECT(0) (RFC 9000 section 13.4). Default true.
    pub fn ecn(&mut self, enabled: bool) -> &mut Self {
        self.ecn = enabled;
        self
    }

    /// Attaches an observer to every connection for which the factory returns one. Default none, which
    /// costs nothing. Each call attaches one more.
    pub fn observer(
        &mut self,
        factory: impl Fn(Side) -> Option<Box<dyn Observer>> + Send + Sync + 'static,
    ) -> &mut Self {
        self.observers.push(Arc::new(factory));
        self
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            max_concurrent_bidi_streams: limits::DEFAULT_MAX_CONCURRENT_STREAMS,
            max_concurrent_uni_streams: limits::DEFAULT_MAX_CONCURRENT_STREAMS,
            max_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive_interval: None,
            stream_receive_window: 16 << 20,
            receive_window: 24 << 20,
            window_auto_tuning: true,
            send_window: 16 << 20,
            min_rate: None,
            datagram_receive_buffer: Some(limits::DEFAULT_DATAGRAM_BUFFER),
            datagram_send_buffer: limits::DEFAULT_DATAGRAM_BUFFER,
            max_paths: 8,
            path_start: PathStart::default(),
            early_path_data: EarlyPathData::default(),
            initial_rtt: Duration::from_millis(333),
            initial_mtu: 1200,
            max_mtu: 1452,
            link_mtu: true,
            max_ack_delay: Duration::from_millis(25),
            ack_frequency_config: Some(AckFrequencyConfig::careful()),
            congestion: Arc::new(CongestionControl::default()),
            initial_window: InitialWindow::default(),
            slow_start: None,
            path_memory: None,
            careful_resume: Some(CarefulResumeConfig::default()),
            scheduler: SchedulerFactory::from(|| Box::new(Arrival::default())),
            tail_copies: true,
            copy_budget: (64 * 1024, 5),
            pacing: true,
            segmentation_offload: true,
            ecn: true,
            observers: Vec::new(),
        }
    }
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportConfig")
            .field("max_idle_timeout", &self.max_idle_timeout)
            .field("stream_receive_window", &self.stream_receive_window)
            .field("receive_window", &self.receive_window)
            .field("window_auto_tuning", &self.window_auto_tuning)
            .field("send_window", &self.send_window)
            .field("max_paths", &self.max_paths)
            .field("congestion", &self.congestion.label())
            .field("initial_window", &self.initial_window)
            .field("slow_start", &self.slow_start)
            .finish_non_exhaustive()
    }
}
