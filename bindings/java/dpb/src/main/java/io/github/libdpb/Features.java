package io.github.libdpb;

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
