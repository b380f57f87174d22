//! The compiler's data: plain, printable and serialisable. The stages that work on the data are the files beside this
//! folder.

mod collective;
mod endpoint;
mod graph;
mod operation;
mod plan;
mod tensor_path;

pub use collective::{CollectiveIr, CommunicatorPlan, RankPlan};
pub use endpoint::Endpoint;
pub use graph::{
    ActorIr, ArgGroup, ArgIr, BindIndex, BufferIr, CollectiveId, GraphIr, Origin, SourceLocation, TaskId,
    TaskIr, TensorsIr, TraitsIr, ValueId, ValueIr,
};
pub use operation::{EdgeKind, LaneSchedule, OpKind, Operation, OperationEdge, OperationGraph, Schedule};
pub use plan::{ChannelId, ChannelKind, ChannelPlan, LaneProgram, LaneValue, Lanes, Plan, Settings, Writer};
pub use tensor_path::{TensorPath, TensorPathPlan};
