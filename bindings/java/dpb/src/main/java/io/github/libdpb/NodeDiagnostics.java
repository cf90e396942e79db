package io.github.libdpb;

/**
 * Counts of a {@link FleetNode} that are NOT private, because a reward is a click. Show them to operators only.
 *
 * @param waiting rewards that wait for the store
 * @param sent rewards for other nodes that the store has accepted
 * @param unsent rewards for other nodes that were lost because the queue was full
 * @param received rewards from other nodes that took effect
 * @param refused rewards from other nodes that were repeated, late or invalid, or whose tickets no bandit here knows
 * @param failures commands that failed: some fail only if there are rewards
 */
public record NodeDiagnostics(int waiting, long sent, long unsent, long received, long refused, long failures) {}
