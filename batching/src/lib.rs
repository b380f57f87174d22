//! Requests of many clients, put together into executions of a graph.
