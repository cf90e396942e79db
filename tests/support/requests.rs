//! Requests in few words. For more than one of these: `Request { user, ..among(&arms) }`.
#![allow(dead_code, reason = "tests use a part each")]

use dpb::Request;

pub fn among(arms: &[u32]) -> Request<'_> {
    Request { eligible: Some(arms), ..Request::default() }
}

pub fn of_user(user: u64) -> Request<'static> {
    Request { user, ..Request::default() }
}

pub fn in_segment(key: u64) -> Request<'static> {
    Request { segment: key, ..Request::default() }
}

pub fn of_slots(slots: u32) -> Request<'static> {
    Request { slots, ..Request::default() }
}
