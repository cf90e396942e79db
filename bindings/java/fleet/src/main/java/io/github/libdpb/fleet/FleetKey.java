package io.github.libdpb.fleet;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.HexFormat;

/** Reads the key of a fleet, {@link io.github.libdpb.Config#fleetKey(byte[])}. */
public final class FleetKey {
    private FleetKey() {}

    /**
     * Reads 32 secret random bytes, or 64 hexadecimal digits on one line, which may end as on Windows.
     *
     * @throws IOException other users can access the file, or it has no key
     */
    public static byte[] read(Path file) throws IOException {
        var permissions = EnumSet.copyOf(Files.getPosixFilePermissions(file));
        permissions.removeIf(permission -> permission.name().startsWith("OWNER_"));
        if (!permissions.equals(EnumSet.noneOf(PosixFilePermission.class))) {
            throw new IOException(file + ": other users can access it: chmod 600");
        }
        byte[] bytes;
        try (InputStream stream = Files.newInputStream(file)) {
            bytes = stream.readNBytes(67);
        }
        if (bytes.length == 32) {
            return bytes;
        }
        String line = new String(bytes, StandardCharsets.ISO_8859_1).replaceFirst("\r?\n$", "");
        if (line.length() != 64 || !line.chars().allMatch(HexFormat::isHexDigit)) {
            throw new IOException(file + ": no fleet key: 32 bytes, or 64 hexadecimal digits");
        }
        return HexFormat.of().parseHex(line);
    }
}
