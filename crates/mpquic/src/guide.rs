//! The pages of `docs/guide` as doc tests, so that their code compiles; exists for `cargo test --doc` only.

#[doc = include_str!("../../../docs/guide/first-connection.md")]
pub struct FirstConnection;

#[doc = include_str!("../../../docs/guide/two-interfaces.md")]
pub struct TwoInterfaces;

#[doc = include_str!("../../../docs/guide/from-quinn.md")]
pub struct FromQuinn;

#[doc = include_str!("../../../docs/guide/choosing-a-scheduler.md")]
pub struct ChoosingAScheduler;

#[doc = include_str!("../../../docs/guide/paths.md")]
pub struct Paths;

#[doc = include_str!("../../../docs/guide/settings.md")]
pub struct Settings;

#[doc = include_str!("../../../docs/guide/early-data.md")]
pub struct EarlyData;

#[doc = include_str!("../../../docs/guide/many-servers.md")]
pub struct ManyServers;

#[doc = include_str!("../../../docs/guide/deploying.md")]
pub struct Deploying;

#[doc = include_str!("../../../docs/guide/writing-a-scheduler.md")]
pub struct WritingAScheduler;

#[doc = include_str!("../../../docs/guide/seeing-inside.md")]
pub struct SeeingInside;
