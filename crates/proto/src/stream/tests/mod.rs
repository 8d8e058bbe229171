//! Tests of the streams of a connection as a whole.
