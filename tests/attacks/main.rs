//! Attacks by a hostile peer: one test per class of attack, each with a figure and its limit.

use mpquic_hostile::duel::Duel;
use mpquic_hostile::meter::Counting;
use mpquic_hostile::params::Params;
use mpquic_proto::TransportConfig;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn connects() {
    let mut duel = Duel::established(TransportConfig::default(), Params::generous(Some(7)));
    duel.open_path(1);
    duel.open_path(2);
    assert!(duel.alive());
    let duel = Duel::established_client(TransportConfig::default(), Params::generous(Some(7)));
    assert!(duel.alive());
}
