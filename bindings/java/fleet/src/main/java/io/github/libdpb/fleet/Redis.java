package io.github.libdpb.fleet;

import io.github.libdpb.Command;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.async.RedisScriptingAsyncCommands;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * A store on a Redis or Valkey server or cluster, by Lettuce.
 *
 * <pre>{@code
 * RedisClient client = RedisClient.create("redis://localhost");
 * Store store = new Redis(
 *         client.connect(ByteArrayCodec.INSTANCE).async(), client.connect(ByteArrayCodec.INSTANCE).async());
 * }</pre>
 *
 * <p>The connections are yours to make, to protect and to close. Lettuce connects again by itself.
 */
public final class Redis implements Store {
    private final RedisScriptingAsyncCommands<byte[], byte[]> rounds;
    private final RedisScriptingAsyncCommands<byte[], byte[]> exchanges;

    /**
     * A store on two connections, so that a long reply delays no beat. They are to one server, or to a cluster.
     *
     * @param rounds for beats and rewards
     * @param exchanges for everything else
     */
    public Redis(
            RedisScriptingAsyncCommands<byte[], byte[]> rounds,
            RedisScriptingAsyncCommands<byte[], byte[]> exchanges) {
        this.rounds = rounds;
        this.exchanges = exchanges;
    }

    /** Runs it with EVALSHA, or EVAL if the server does not know the script. */
    @Override
    public byte[] run(Command command) throws Exception {
        long end = System.nanoTime() + command.timeout().toNanos();
        var redis = command.kind() == Command.Kind.ROUND ? rounds : exchanges;
        try {
            return reply(redis.evalsha(command.sha1(), ScriptOutputType.VALUE, command.keys(), command.args()), end);
        } catch (RedisNoScriptException unknown) {
            return reply(redis.eval(command.script(), ScriptOutputType.VALUE, command.keys(), command.args()), end);
        }
    }

    private static byte[] reply(RedisFuture<byte[]> future, long end) throws Exception {
        try {
            return future.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException failure) {
            throw failure.getCause() instanceof Exception cause ? cause : failure;
        } finally {
            future.cancel(true); // one that Lettuce has not sent yet, if the time is over
        }
    }
}
