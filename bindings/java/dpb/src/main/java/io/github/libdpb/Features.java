package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;

/** Indices of one-hot features, the same in all languages. */
public final class Features {
    private Features() {}

    /**
     * Returns the index of a category: the CRC-32 of "field=value" in UTF-8, modulo d; 0 if d is 0. Two categories
     * share an index with a chance of 1/d.
     *
     * @param field such as "device"
     * @param value such as "phone"
     * @param d {@link Config#features()}
     * @throws DpbException {@link Status#INVALID_REQUEST}: a text contains NUL, which would end it in C
     */
    public static int hash(String field, String value, int d) {
        if (field.indexOf('\0') >= 0 || value.indexOf('\0') >= 0) {
            throw DpbException.request("field and value must have no NUL");
        }
        CRC32 crc = new CRC32();
        crc.update((field + "=" + value).getBytes(StandardCharsets.UTF_8));
        return d == 0 ? 0 : (int) (crc.getValue() % Native.count("d", d));
    }

    /**
     * Makes a codebook for {@link Config#codebook(float[])}: means of public rows, by k-means, one after another. The
     * rows must be public: old, synthetic or enumerated ones, never those of people whom the bandit protects. Without
     * rows it is the 2 {@code features} signed unit vectors, which lose more.
     *
     * @param rows the rows, one after another
     * @param features {@link Config#features()}
     * @param length the number of rows of the codebook
     * @throws DpbException {@link Status#INVALID_CONFIG}, with a message that names the argument
     */
    public static float[] codebook(float[] rows, int features, int length) {
        if (features < 1 || features > 256 || length < 1 || length > 65536 || rows.length % features != 0) {
            throw DpbException.invalid("codebook needs whole rows of 1 to 256 features, and a length of at most 65536, got "
                    + rows.length + " numbers of " + features + " features, length " + length);
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment book = arena.allocate(JAVA_FLOAT, (long) length * features);
            long given = arena.allocateFrom(JAVA_FLOAT, rows).address();
            Handle.explain(error -> Native.dpb_codebook(
                    given, rows.length / features, features, length, book.address(), error));
            return book.toArray(JAVA_FLOAT);
        }
    }

    /**
     * Returns the index of two categories that come together, for example of device and country.
     *
     * @param a the index of one
     * @param b the index of the other
     * @param d {@link Config#features()}
     */
    public static int cross(int a, int b, int d) {
        return Native.dpb_feature_cross(a, b, d);
    }
}
