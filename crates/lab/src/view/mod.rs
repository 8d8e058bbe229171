//! Results as people read them: on a terminal, in Markdown, as an HTML report.

pub(crate) mod handshake_path;
pub(crate) mod markdown;
pub(crate) mod output;
pub(crate) mod qlog_view;
pub(crate) mod report;
pub(crate) mod start_compare;
pub(crate) mod terminal;
pub(crate) mod text;
