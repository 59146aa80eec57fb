//! Sans-IO links and queues: rate, delay, loss, reordering, duplication, drop-tail.
