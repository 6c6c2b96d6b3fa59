//! Nodes and pods as their watches show them: late, each on its own, in lists that come in parts and break off.

use std::collections::BTreeMap;

use bailiff_taint_core::{Input, NodeFacts, PodFacts};

use super::World;
use crate::harness::Harness;

impl World {
    pub(super) fn catch_up(&mut self, h: &mut Harness) {
        for _ in 0..self.dice.below(4) {
            self.show(h);
        }
    }

    pub(super) fn show(&mut self, h: &mut Harness) {
        let shown = match self.dice.below(3) {
            0 => self.shown_nodes.pop_front(),
            1 => self.shown_pods.pop_front(),
            _ => self.news_of_health(),
        };
        if let Some(input) = shown {
            self.apply(h, input);
        }
    }

    /// A list, in parts, perhaps after one that broke off.
    pub fn list_nodes(&mut self) {
        self.shown_nodes.clear();
        if self.dice.one_in(6) {
            let nodes = self.some(&self.nodes.clone());
            self.shown_nodes.push_back(Input::SomeNodes { first: true, nodes });
        }
        let mut nodes: Vec<NodeFacts> = self.nodes.values().cloned().collect();
        let rest = nodes.split_off(self.dice.below(nodes.len() + 1));
        self.shown_nodes.push_back(Input::SomeNodes { first: true, nodes });
        self.shown_nodes.push_back(Input::Nodes(rest.into()));
    }

    /// A list, in parts, perhaps after one that broke off.
    pub fn list_pods(&mut self) {
        self.shown_pods.clear();
        if self.dice.one_in(6) {
            let pods = self.some(&self.pods.clone());
            self.shown_pods.push_back(Input::SomePods { first: true, pods });
        }
        let mut pods: Vec<PodFacts> = self.pods.values().cloned().collect();
        let rest = pods.split_off(self.dice.below(pods.len() + 1));
        self.shown_pods.push_back(Input::SomePods { first: true, pods });
        self.shown_pods.push_back(Input::Pods(rest.into()));
    }

    fn some<T: Clone>(&mut self, all: &BTreeMap<String, T>) -> Vec<T> {
        all.values().filter(|_| self.dice.one_in(2)).cloned().collect()
    }

    /// All there is.
    pub fn lists(&self) -> [Input; 2] {
        [
            Input::Nodes(self.nodes.values().cloned().collect()),
            Input::Pods(self.pods.values().cloned().collect()),
        ]
    }
}
