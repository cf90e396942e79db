package io.github.libdpb;

/**
 * An estimate: of the mean reward of a row of features, or of the weight of a feature. Both numbers are NaN for a retired
 * arm.
 *
 * @param mean in the units of rewards; of a weight in logits for one unit of the feature
 * @param deviation the standard deviation of the estimate, in the same units
 */
public record Prediction(double mean, double deviation) {}
