//! The shapes of inputs and outputs: an edge, and arrays, `Vec`s and tuples of shapes.

use selvedge_channels::{AnyOutlet, ChannelError, Fault, Payload};

use crate::bind::edge::Edge;
use crate::bind::ports::collect::Collected;
use crate::bind::ports::submit::Submitter;
use crate::bind::ports::{InputPorts, Inputs, OutputLeaf, OutputList, Outputs};
use crate::run::driver::leaf::{AnyLeaf, Leaf};

/// The input of a graph without inputs. An execution starts the tasks that take no edge.
impl Inputs for () {
    type Value = ();

    fn open(_: &mut InputPorts) -> Self {}

    fn write((): (), _: &mut Submitter<'_>) {}
}

impl<T: Payload> Inputs for Edge<T> {
    type Value = T;

    fn open(ports: &mut InputPorts) -> Self {
        ports.open::<T>()
    }

    fn write(value: T, ports: &mut Submitter<'_>) {
        ports.next(value);
    }

    fn send(value: T, outlet: &mut dyn AnyOutlet) -> Option<T> {
        match outlet.typed_mut::<T>() {
            Some(outlet) => outlet.try_put(value),
            None => Some(value),
        }
    }
}

impl<T: Payload> Outputs for Edge<T> {
    type Value = T;

    fn list(&self, out: &mut OutputList) {
        let leaf = |executions| -> Box<dyn AnyLeaf> { Box::new(Leaf::<T>::with_capacity(executions)) };
        out.leaves.push(OutputLeaf {
            source: self.source.clone(),
            leaf,
        });
    }

    fn take(collected: &mut Collected<'_>) -> Result<T, Fault> {
        collected.next::<T>()
    }
}

impl<I: Inputs, const N: usize> Inputs for [I; N] {
    type Value = [I::Value; N];

    fn open(ports: &mut InputPorts) -> Self {
        std::array::from_fn(|_| I::open(ports))
    }

    fn write(value: Self::Value, ports: &mut Submitter<'_>) {
        value.into_iter().for_each(|value| I::write(value, ports));
    }

    fn fits(value: &Self::Value, width: usize) -> bool {
        value.iter().all(|value| I::fits(value, width))
    }
}

impl<O: Outputs, const N: usize> Outputs for [O; N] {
    type Value = [O::Value; N];

    fn list(&self, out: &mut OutputList) {
        self.iter().for_each(|edge| edge.list(out));
    }

    fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault> {
        let mut fault = None;
        let values: [Option<O::Value>; N] = std::array::from_fn(|_| match O::take(collected) {
            Ok(value) => Some(value),
            Err(error) => {
                fault.get_or_insert(error);
                None
            }
        });
        let all: Vec<O::Value> = values.into_iter().flatten().collect();
        all.try_into().map_err(|_| fault.unwrap_or_else(Fault::cancelled))
    }
}

impl<I: Inputs> Inputs for Vec<I> {
    type Value = Vec<I::Value>;

    fn open(ports: &mut InputPorts) -> Self {
        (0..ports.width).map(|_| I::open(ports)).collect()
    }

    /// Refuses a value that has fewer or more items than the graph has edges.
    fn write(value: Self::Value, ports: &mut Submitter<'_>) {
        if value.len() != ports.width() {
            ports.refuse(ChannelError::NoValue);
        }
        value.into_iter().for_each(|value| I::write(value, ports));
    }

    fn fits(value: &Self::Value, width: usize) -> bool {
        value.len() == width && value.iter().all(|value| I::fits(value, width))
    }
}

impl<O: Outputs> Outputs for Vec<O> {
    type Value = Vec<O::Value>;

    fn list(&self, out: &mut OutputList) {
        out.lengths.push(self.len());
        self.iter().for_each(|edge| edge.list(out));
    }

    fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault> {
        let length = collected.length();
        // Every leaf is taken, even after a fault, so that later outputs find their own leaves.
        let taken: Vec<_> = (0..length).map(|_| O::take(collected)).collect();
        taken.into_iter().collect()
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Inputs),+> Inputs for ($($name,)+) {
            type Value = ($($name::Value,)+);

            fn open(ports: &mut InputPorts) -> Self {
                ($($name::open(ports),)+)
            }

            fn write(value: Self::Value, ports: &mut Submitter<'_>) {
                $($name::write(value.$index, ports);)+
            }

            fn fits(value: &Self::Value, width: usize) -> bool {
                $($name::fits(&value.$index, width))&&+
            }
        }

        impl<$($name: Outputs),+> Outputs for ($($name,)+) {
            type Value = ($($name::Value,)+);

            fn list(&self, out: &mut OutputList) {
                $(self.$index.list(out);)+
            }

            fn take(collected: &mut Collected<'_>) -> Result<Self::Value, Fault> {
                let all = ($($name::take(collected),)+);
                Ok(($(all.$index?,)+))
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
