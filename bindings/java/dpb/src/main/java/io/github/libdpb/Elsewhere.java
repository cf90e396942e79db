package io.github.libdpb;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * A decision by the weights of a table. {@link Bandit#record} takes it.
 *
 * @param id names the decision; in JSON write 16 hexadecimal digits
 * @param propensity the probability of the arm
 * @param arm from 0
 */
public record Elsewhere(long id, double propensity, int arm) {
    private static final long ALL = 1L << 32;

    /**
     * Decides by weights that sum to 2^32 ({@link Bandit#weights}), as every other program does that has the table: the
     * unit, such as a visitor, gets the same arm while the table is the same. Needs no bandit, no clock and no state.
     *
     * @param salt of the table
     * @param context the key of the weights in the table; "" for the default
     * @param unit a visitor's id, or a request's
     * @throws DpbException {@link Status#INVALID_CONFIG}: weights with another sum; {@link Status#INVALID_REQUEST}: an
     *     empty unit, or a newline
     */
    public static Elsewhere decide(long[] weights, String salt, String context, String unit) {
        long sum = 0;
        for (long weight : weights) {
            if (weight < 0 || weight > ALL - sum) {
                throw DpbException.invalid("weights must sum to 2^32");
            }
            sum += weight;
        }
        if (sum != ALL) {
            throw DpbException.invalid("weights must sum to 2^32, got " + sum);
        }
        if (unit.isEmpty() || (salt + context + unit).indexOf('\n') >= 0) {
            throw DpbException.request("unit must not be empty, and salt, context and unit must have no newline");
        }
        byte[] text = (salt + '\n' + context + '\n' + unit).getBytes(StandardCharsets.UTF_8);
        long id = ByteBuffer.wrap(sha256(text)).getLong();
        long left = id >>> 32;
        int arm = 0;
        while (left >= weights[arm]) {
            left -= weights[arm++];
        }
        return new Elsewhere(id, (double) weights[arm] / ALL, arm);
    }

    private static byte[] sha256(byte[] text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text);
        } catch (NoSuchAlgorithmException wrong) {
            throw new IllegalStateException(wrong); // every Java has it
        }
    }
}
