package io.github.libdpb;

/**
 * A confidence interval: of a difference in the units of rewards, of a lift as a share.
 *
 * @param low its lower end
 * @param high its upper end
 */
public record Interval(double low, double high) {}
