package io.github.libdpb.fleet;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.libdpb.Command;
import io.github.libdpb.Config;
import io.github.libdpb.DpbException;
import io.github.libdpb.NodeOptions;
import io.github.libdpb.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.HexFormat;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NodeTest {
    /** A real Redis is in the tests of mixed fleets. */
    @Test
    void aStoreThatFailsIsAskedAgain() {
        Store store = command -> {
            throw new IOException("no " + command.kind() + " today");
        };
        Config config = new Config(2, 1.0);
        TimeoutException late = assertThrows(
                TimeoutException.class,
                () -> Node.join(store, null, config, new NodeOptions("ads"), Duration.ofSeconds(1)));
        assertTrue(late.getMessage().contains("no TAKE today"), late.getMessage());
        DpbException refused = assertThrows(
                DpbException.class, () -> Node.join(store, null, config, new NodeOptions("{"), Duration.ofSeconds(1)));
        assertEquals(Status.INVALID_CONFIG, refused.status());
    }

    @Test
    void aNumberIsEndedByItsCommand() throws Exception {
        Command.Kind[] kind = new Command.Kind[1];
        Node.leave(
                command -> {
                    kind[0] = command.kind();
                    return new byte[0];
                },
                "ads",
                7);
        assertEquals(Command.Kind.LEAVE, kind[0]);
    }

    @Test
    void keysAreReadFromFilesThatNobodyElseReads(@TempDir Path place) throws Exception {
        Path file = place.resolve("key");
        byte[] key = new byte[32];
        key[3] = -1;
        Files.write(file, key);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
        assertTrue(assertThrows(IOException.class, () -> FleetKey.read(file)).getMessage().contains("chmod 600"));
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
        assertArrayEquals(key, FleetKey.read(file));
        Files.writeString(file, HexFormat.of().formatHex(key) + "\r\n");
        assertArrayEquals(key, FleetKey.read(file));
        Files.writeString(file, HexFormat.of().formatHex(key).substring(1) + "x");
        assertThrows(IOException.class, () -> FleetKey.read(file));
        Files.write(file, new byte[31]);
        assertThrows(IOException.class, () -> FleetKey.read(file));
    }
}
