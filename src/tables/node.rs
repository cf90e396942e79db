// The tables of what may be read of a node of a fleet, in the form of `report.rs`: the only place for a field of them.
// `node/report.rs` includes them.
reports! {
    /// What anybody may know of a node.
    NodeReport as dpb_node_report from NodeReading {
        /// What it is doing.
        state: NodeState = |of| of.core.state, "0.1" {
            /// What it is doing.
            state: NodeState = state as u32;
        };
        /// Its number, incarnation and life; all 0 until it has a number.
        member: Member = |of| of.core.member, "0.1" {
            /// Its number; 0 until it has one.
            number: u32 = member.number;
            /// How many processes have had the number, this one included.
            incarnation: u32 = member.incarnation;
        };
        /// Whether a balancer may send it requests: it serves, and the store has answered within the last ten delays.
        ready: bool = |of| of.is_ready, "0.1", gauge "fleet_ready" "1 if a balancer may send this node requests.";
        /// Whether an outage lasts: rewards do not arrive in time, here or at another node, and decisions are cancelled.
        outage: bool = |of| of.core.membership.outage.is_some(), "0.1",
            gauge "fleet_outage" "1 while rewards cannot travel between nodes, so that decisions are cancelled.";
        /// How many outages there were.
        outages: u32 = |of| of.core.membership.outages as u32, "0.1",
            counter "fleet_outages" "Outages: periods in which rewards could not travel between nodes.";
        /// Whether the bandit may learn from people: the store has kept a snapshot that counts this period.
        learns: bool = |of| of.core.has_settled(), "0.1",
            gauge "fleet_learns" "1 if this node may learn from people: the store has kept a snapshot that counts this period.";
        /// Whether it leads: it releases what all nodes contribute.
        leads: bool = |of| of.core.leads(), "0.1",
            gauge "fleet_leads" "1 while this node leads: it releases what all nodes contribute.";
        /// The number and the generation of the leader; 0: none is known.
        leader: (u16, u64) = |of| (of.core.exchange.leader.number, of.core.exchange.leader.generation), "0.1" {
            /// The number of the leader; 0: none is known.
            leader: u32 = leader.0;
        };
        /// Nodes that are alive, this one included.
        nodes: u32 = |of| of.core.membership.nodes as u32, "0.1",
            gauge "fleet_nodes" "Nodes that are alive, this one included.";
        /// Other nodes of which a snapshot was read, also nodes that have left.
        released: u32 = |of| of.core.exchange.merged.len() as u32, "0.1",
            gauge "fleet_released_nodes" "Other nodes from which this node has read a snapshot, also nodes that have left.";
        /// Those of them whose newest snapshot this node refused.
        incompatible: u32 = |of| of.core.exchange.incompatible.len() as u32, "0.1",
            gauge "fleet_incompatible_nodes" "Other nodes whose newest snapshot was refused.";
        /// Bandits of nodes that have ended, with whose open decisions this node continues.
        draining: u32 = |of| of.core.draining.len() as u32, "0.1",
            gauge "fleet_draining" "Nodes that have ended, with whose open decisions this node continues.";
        /// Exchanges that ended well.
        exchanges: u64 = |of| of.core.exchange.ended, "0.1", counter "fleet_exchanges" "Successful exchanges.";
        /// Milliseconds since the last of them.
        age: u64 = |of| of.core.now - of.core.exchange.ended_at, "0.1" {
            /// The time since the last of them: what this node knows of others is at most so old.
            age_ms: Milliseconds = age, gauge "fleet_age_seconds" "Seconds since the last successful exchange.";
        };
        /// Contributions that the store has accepted.
        contributions: u64 = |of| of.core.exchange.contributed, "0.1",
            counter "fleet_contributions" "Contributions to leaders that the store has accepted.";
        /// The last error of the store or of this node; empty: none.
        last_error: String = |of| of.core.last_error.clone(), "0.1" {
            /// The last error of the store or of this node; empty: none.
            last_error: Text = chars(&last_error);
        };
    }

    /// Counts of rewards that travel, for the operator only. NOT private: a reward is a click.
    NodeDiagnostics as dpb_node_diagnostics from NodeCounted {
        /// Rewards that wait for the store.
        waiting: u32 = |of| of.outbox.len() as u32, "0.1",
            gauge "fleet_rewards_waiting" "Rewards in the queue to other nodes. NOT private.";
        /// Rewards for other nodes that the store has accepted.
        sent: u64 = |of| of.outbox.sent, "0.1", counter "fleet_rewards_sent" "Rewards sent to other nodes. NOT private.";
        /// Rewards for other nodes that were lost because the queue was full.
        unsent: u64 = |of| of.outbox.lost, "0.1",
            counter "fleet_rewards_unsent" "Rewards lost because the queue or a message was full. NOT private.";
        /// Rewards from other nodes that took effect.
        received: u64 = |of| of.core.counts.received, "0.1",
            counter "fleet_rewards_received" "Rewards from other nodes that took effect. NOT private.";
        /// Rewards from other nodes that were repeated, late or invalid, or whose tickets no bandit here knows.
        refused: u64 = |of| of.core.counts.refused, "0.1",
            counter "fleet_rewards_refused" "Rewards from other nodes that were refused. NOT private.";
        /// Commands that failed: some fail only if there are rewards.
        failures: u64 = |of| of.core.counts.failures, "0.1",
            counter "fleet_failures" "Commands to the store that failed. NOT private: some fail only if there are rewards.";
    }
}
