//! The compiler's data: plain, printable and serialisable. The stages that work on the data are the files beside this
//! folder.

mod graph;
mod operation;
mod plan;
mod shuttle;

pub use graph::{
    ActorIr, ArgGroup, ArgIr, BindIndex, BufferIr, CollectiveId, GraphIr, Origin, SourceLocation, TaskId,
    TaskIr, TensorsIr, TraitsIr, ValueId, ValueIr,
};
pub use operation::{EdgeKind, LaneSchedule, OpKind, Operation, OperationEdge, OperationGraph, Schedule};
pub use plan::{
    ChannelId, ChannelKind, ChannelPlan, CollectiveIr, CommunicatorPlan, Endpoint, LaneProgram, LaneValue,
    Lanes, Plan, RankPlan, Settings, TensorPath, TensorPathPlan, Writer,
};
pub use shuttle::ShuttlePlan;
