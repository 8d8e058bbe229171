//! The QUIC bit (RFC 9287) between quinn, which clears it towards those that allow it, and endpoints of ours that do and
//! do not, in both roles.

use libtest_mimic::Trial;

use crate::case::Case;
use crate::stacks::{Mpquic, Quinn, Setup, Stack};
use crate::verdict::{Verdict, test};
use crate::wire::Wire;
use crate::{download, serve, setup};
use mpquic_test_support::runtime::run;

pub(crate) fn tests() -> [Trial; 2] {
    [
        test("grease::quinn_client", quinn_client),
        test("grease::quinn_server", quinn_server),
    ]
}

fn quinn_client() -> Verdict {
    for ours in [true, false] {
        for quinn in [true, false] {
            exchange::<Quinn, Mpquic>(ours, quinn, true);
        }
    }
    Ok(())
}

fn quinn_server() -> Verdict {
    for ours in [true, false] {
        for quinn in [true, false] {
            exchange::<Mpquic, Quinn>(ours, quinn, false);
        }
    }
    Ok(())
}

/// Who takes packets without the bit. `up`: whether quinn's packets go to the server.
fn exchange<C: Stack, S: Stack>(ours: bool, quinn: bool, up: bool) {
    run(async move {
        let case = Case::Ecn;
        let wire = Wire::bind();
        let (setup, _) = setup(case, None);
        let setup = Setup {
            our_quic_bit_greased: ours,
            quinn_quic_bit_greased: quinn,
            ..setup
        };
        wire.start(case, serve::<S>(case, &setup));
        download::<C>(case, &setup, wire.address()).await;
        let records = wire.records();
        let cleared = |up: bool| {
            let sent = records.iter().filter(|record| record.up == up);
            sent.filter(|record| record.cleared).count()
        };
        // quinn clears it for all who take it; we do so only if we take it as well.
        assert_eq!(cleared(up) > 0, ours, "quinn's packets");
        assert_eq!(cleared(!up) > 0, ours && quinn, "our packets");
    });
}
