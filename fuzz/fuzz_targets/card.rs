//! A model card, whatever it holds, ends in a card that can be written and read again, or in an error.
#![no_main]

use mpquic_infer::Card;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(card) = Card::from_json(data) {
        let again = serde_json::to_vec(&card).expect("a card is JSON");
        assert_eq!(Card::from_json(&again).expect("our own writing"), card);
    }
});
