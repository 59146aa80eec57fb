//! Shortest paths between nodes that do not move.

use std::collections::VecDeque;

use crate::frame::NodeId;

/// For each node, the next hop towards each other node; `None` if there is no path. Among
/// paths with equally few hops the next hop that is closer in metres wins, then the lower number.
pub fn shortest(places: &[(f64, f64)], range: f64) -> Vec<Vec<Option<NodeId>>> {
    let square = |a: NodeId, b: NodeId| {
        let (a, b) = (places[a], places[b]);
        (a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)
    };
    let count = places.len();
    let mut table = vec![vec![None; count]; count];
    let near = |a: NodeId, b: NodeId| square(a, b) <= range * range;
    let all_hops: Vec<_> = (0..count).map(|to| hops_to(to, count, near)).collect();
    for (from, row) in table.iter_mut().enumerate() {
        for (way, hops) in row.iter_mut().zip(&all_hops) {
            let Some(mine) = hops[from].filter(|hops| *hops > 0) else {
                continue;
            };
            let nearer =
                (0..count).filter(|next| hops[*next] == Some(mine - 1) && near(from, *next));
            *way = nearer.min_by(|a, b| square(from, *a).total_cmp(&square(from, *b)));
        }
    }
    table
}

/// Hops from each node to `to`.
fn hops_to(to: NodeId, count: usize, near: impl Fn(NodeId, NodeId) -> bool) -> Vec<Option<usize>> {
    let mut hops = vec![None; count];
    hops[to] = Some(0);
    let mut front = VecDeque::from([to]);
    while let Some(node) = front.pop_front() {
        let next = hops[node].map(|hops: usize| hops + 1);
        for (other, known) in hops.iter_mut().enumerate() {
            if known.is_none() && near(node, other) {
                *known = next;
                front.push_back(other);
            }
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The straight step where both are as short, and the diagonal of 42 m where it saves a hop.
    #[test]
    fn the_shortest_way_and_then_the_shorter_step() {
        let places: Vec<(f64, f64)> = (0..9)
            .map(|i| (30.0 * (i % 3) as f64, 30.0 * (i / 3) as f64))
            .collect();
        let table = shortest(&places, 50.0);
        assert_eq!(table[0][2], Some(1));
        assert_eq!(table[0][8], Some(4));
        assert_eq!(table[0][5], Some(1), "30 m rather than 42");
        assert_eq!(table[0][0], None);
        assert_eq!(shortest(&places, 20.0)[0][1], None);
    }
}
