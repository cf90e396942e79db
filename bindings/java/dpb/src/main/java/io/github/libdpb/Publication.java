package io.github.libdpb;

import java.security.SecureRandom;
import java.time.Instant;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * What a table is published for: {@link Bandit#publish} makes one. Programs elsewhere decide by it
 * ({@link Elsewhere#decide}), in any language.
 */
public final class Publication {
    private static final SecureRandom RANDOM = new SecureRandom();

    private final String name;
    private final Map<String, Request> contexts = new LinkedHashMap<>(Map.of("", new Request()));
    private List<String> arms;
    private Instant until;
    private long grace;

    /** A publication of a table with this name. */
    public Publication(String name) {
        this.name = Objects.requireNonNull(name);
    }

    /** The name of each arm. Default their numbers. */
    public Publication arms(String... names) {
        arms = List.of(names);
        return this;
    }

    /** What to decide for in a context; "" is the default, which decides for a request that says nothing. */
    public Publication context(String context, Request request) {
        if (context.indexOf('\n') >= 0) {
            throw DpbException.invalid("a context must have no newline");
        }
        contexts.put(context, Objects.requireNonNull(request));
        return this;
    }

    /** The planned end of the version, a hint for caches. Default none. */
    public Publication until(Instant end) {
        until = end;
        return this;
    }

    /** For how many ticks more the version before it may be recorded. Default 0. */
    public Publication grace(long ticks) {
        grace = ticks;
        return this;
    }

    String publish(Bandit bandit) {
        var weights = new LinkedHashMap<String, long[]>();
        contexts.forEach((context, request) -> weights.put(context, bandit.weights(request)));
        int number = weights.get("").length;
        List<String> names = arms != null ? arms : IntStream.range(0, number).mapToObj(Integer::toString).toList();
        if (names.size() != number) {
            throw DpbException.invalid("arms must have " + number + " names, got " + names.size());
        }
        byte[] salt = new byte[16];
        RANDOM.nextBytes(salt);
        String policy = bandit.policy().toString();
        boolean isPrivate = bandit.report().isPrivate();
        String all = weights.entrySet().stream()
                .map(of -> quoted(of.getKey()) + ": "
                        + LongStream.of(of.getValue()).mapToObj(Long::toString).collect(Collectors.joining(", ", "[", "]")))
                .collect(Collectors.joining(", ", "{", "}"));
        return "{\"dpb_table\": 1, \"name\": " + quoted(name)
                + ", \"version\": " + quoted(HexFormat.of().toHexDigits(bandit.tableBegin(grace)))
                + ", \"salt\": " + quoted(HexFormat.of().formatHex(salt))
                + (until == null ? "" : ", \"until\": " + until.toEpochMilli())
                + ", \"arms\": " + names.stream().map(Publication::quoted).collect(Collectors.joining(", ", "[", "]"))
                + ", \"contexts\": " + all
                + ", \"policy\": " + quoted(policy) + ", \"is_private\": " + isPrivate + "}";
    }

    /** Text as JSON. */
    private static String quoted(String text) {
        return text.codePoints()
                .mapToObj(c -> c == '"' || c == '\\' ? "\\" + (char) c
                        : c < ' ' || Character.getType(c) == Character.SURROGATE ? String.format("\\u%04x", c)
                        : Character.toString(c))
                .collect(Collectors.joining("", "\"", "\""));
    }
}
