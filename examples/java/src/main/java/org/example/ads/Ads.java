package org.example.ads;

import io.github.libdpb.Bandit;
import io.github.libdpb.Config;
import io.github.libdpb.DpbException;
import io.github.libdpb.Status;
import jakarta.annotation.PreDestroy;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/**
 * The bandit, and its files in a directory that one process uses:
 *
 * <ul>
 *   <li>ads.key, the fleetKey, which seals the state.
 *   <li>ads.state, from a planned end to the next start. It has the open decisions and the clicks that wait.
 *   <li>ads.snapshot, at most 10 seconds old, for a start after a crash. It has what was released.
 * </ul>
 */
@Component
class Ads {
    static final int ARMS = 10;
    static final int WINDOW = 1000; // decisions
    static final int FORGET_AFTER = 50_000;

    private final Path directory;
    private final Path state;
    private final Path snapshot;
    private final Bandit bandit;

    Ads(@Value("${ads.directory:.}") String directory) throws IOException {
        this.directory = Path.of(directory).toAbsolutePath();
        this.state = this.directory.resolve("ads.state");
        this.snapshot = this.directory.resolve("ads.snapshot");
        Config config = new Config(ARMS, 1.0) // epsilon 1 for each click
                .rewardBits(0) // a click is 0 or 1
                .rewardWindow(WINDOW)
                .forgetAfter(FORGET_AFTER)
                .fleetKey(key());
        Bandit resumed = resume(config);
        if (resumed != null) {
            bandit = resumed;
        } else if (Files.exists(snapshot)) {
            bandit = Bandit.restore(Files.readAllBytes(snapshot), null, config);
        } else {
            bandit = new Bandit(config);
        }
        save();
    }

    Bandit bandit() {
        return bandit;
    }

    private byte[] key() throws IOException {
        Path file = directory.resolve("ads.key");
        if (!Files.exists(file)) {
            byte[] key = new byte[32];
            new SecureRandom().nextBytes(key);
            var own = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
            Path fresh = Files.createTempFile(directory, "ads", ".key", own);
            write(fresh, file, key);
        }
        return Files.readAllBytes(file);
    }

    /** Continues from the state of a planned end; null if there is none. One process at most may continue from it. */
    private Bandit resume(Config config) throws IOException {
        if (!Files.exists(state)) {
            return null;
        }
        Path own = directory.resolve("ads.state." + ProcessHandle.current().pid() + "." + System.nanoTime());
        Files.move(state, own, StandardCopyOption.ATOMIC_MOVE);
        sync(directory);
        byte[] bytes = Files.readAllBytes(own);
        try {
            Bandit resumed = Bandit.resume(config, bytes);
            resumed.claimed();
            return resumed;
        } catch (DpbException refusal) {
            if (refusal.status() != Status.EXPIRED) { // older than an hour: the snapshot has what was released
                throw refusal;
            }
            return null;
        } finally {
            Files.delete(own);
        }
    }

    @Scheduled(fixedDelay = 10_000)
    void save() throws IOException {
        byte[] bytes = bandit.snapshot();
        write(directory.resolve("ads.snapshot.new"), snapshot, bytes);
        bandit.stored(bytes);
    }

    /** After the last request: Spring ends the web server before. */
    @PreDestroy
    void end() throws IOException {
        save();
        write(directory.resolve("ads.state.new"), state, bandit.suspend(0));
        bandit.close();
    }

    private static void write(Path fresh, Path file, byte[] bytes) throws IOException {
        Files.write(fresh, bytes);
        sync(fresh);
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
        sync(file.getParent());
    }

    private static void sync(Path path) throws IOException {
        StandardOpenOption how = Files.isDirectory(path) ? StandardOpenOption.READ : StandardOpenOption.WRITE;
        try (FileChannel channel = FileChannel.open(path, how)) {
            channel.force(true);
        }
    }
}
