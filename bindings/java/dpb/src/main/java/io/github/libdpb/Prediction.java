package io.github.libdpb;

/**
 * The estimate of the mean reward of a row of features. Both numbers are NaN for a retired arm.
 *
 * @param mean in the units of rewards
 * @param deviation the standard deviation of the estimate, in the same units
 */
public record Prediction(double mean, double deviation) {}
