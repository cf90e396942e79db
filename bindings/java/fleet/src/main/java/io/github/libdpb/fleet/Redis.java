package io.github.libdpb.fleet;

import io.github.libdpb.Command;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.api.StatefulConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.ValueOutput;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.CommandType;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A store on a Redis or Valkey server or cluster, by Lettuce.
 *
 * <pre>{@code
 * RedisClient client = RedisClient.create();
 * RedisURI place = RedisURI.create("redis://localhost");
 * Store store = new Redis(() -> client.connectAsync(ByteArrayCodec.INSTANCE, place));
 * }</pre>
 *
 * <p>It makes two connections, so that a long reply delays no beat, and makes one again after every error. Shutting the
 * client down closes them.
 */
public final class Redis implements Store {
    private final Supplier<? extends CompletionStage<? extends StatefulConnection<byte[], byte[]>>> connect;
    private final Lane rounds = new Lane();
    private final Lane exchanges = new Lane();

    /**
     * A store on connections that are made when they are needed.
     *
     * @param connect connectAsync of a client of a server, of sentinels or of a cluster
     */
    public Redis(Supplier<? extends CompletionStage<? extends StatefulConnection<byte[], byte[]>>> connect) {
        this.connect = connect;
    }

    /** Runs it with EVALSHA, or EVAL if the server does not know the script. */
    @Override
    public byte[] run(Command command) throws Exception {
        return (command.kind() == Command.Kind.ROUND ? rounds : exchanges).run(command);
    }

    private final class Lane {
        private StatefulConnection<byte[], byte[]> connection; // null: none yet, or the last command has failed

        synchronized byte[] run(Command command) throws Exception {
            long end = System.nanoTime() + command.timeout().toNanos();
            try {
                if (connection == null) {
                    connection = connected(end);
                }
                try {
                    return reply(CommandType.EVALSHA, command.sha1(), command, end);
                } catch (RedisNoScriptException unknown) {
                    return reply(CommandType.EVAL, command.script(), command, end);
                }
            } catch (Exception failure) {
                if (connection != null) {
                    connection.closeAsync(); // it may be to a server that is no longer the right one
                    connection = null;
                }
                throw failure;
            }
        }

        private StatefulConnection<byte[], byte[]> connected(long end) throws Exception {
            CompletableFuture<? extends StatefulConnection<byte[], byte[]>> made = connect.get().toCompletableFuture();
            try {
                return before(end, made);
            } catch (Exception failure) {
                made.thenAccept(StatefulConnection::closeAsync); // one that comes too late
                throw failure;
            }
        }

        private byte[] reply(CommandType type, String script, Command command, long end) throws Exception {
            var words = new CommandArgs<>(ByteArrayCodec.INSTANCE).add(script).add(command.keys().length);
            words.addKeys(command.keys()).addValues(command.args());
            var output = new ValueOutput<>(ByteArrayCodec.INSTANCE);
            var sent = new AsyncCommand<>(new io.lettuce.core.protocol.Command<>(type, output, words));
            connection.dispatch(sent);
            try {
                return before(end, sent);
            } finally {
                sent.cancel(true); // one that Lettuce has not sent yet, if the time is over
            }
        }
    }

    private static <T> T before(long end, Future<T> future) throws Exception {
        try {
            return future.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException failure) {
            throw failure.getCause() instanceof Exception cause ? cause : failure;
        }
    }
}
