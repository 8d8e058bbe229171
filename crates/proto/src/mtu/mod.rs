//! placeholder
pub(crate) const BASE_MTU: u16 = 1200;
pub(crate) struct MtuDiscovery(u16);
impl MtuDiscovery {
    pub(crate) fn new(initial: u16, _max: u16) -> Self {
        Self(initial)
    }
    pub(crate) fn current(&self) -> u16 {
        self.0
    }
    pub(crate) fn poll(&mut self, _now: std::time::Instant) -> Option<u16> {
        None
    }
    pub(crate) fn on_probe_sent(&mut self, _pn: u64) {}
    pub(crate) fn on_acked(&mut self, _pn: u64) -> bool {
        false
    }
    pub(crate) fn on_probe_lost(&mut self, _pn: u64, _now: std::time::Instant) {}
    pub(crate) fn on_loss_event(&mut self, _now: std::time::Instant, _largest: u16) -> bool {
        false
    }
}
