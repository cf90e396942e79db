package io.github.libdpb;

import java.util.Locale;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/** A call was refused. The message names the field and the value, where there is one. */
public final class DpbException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private static final Pattern NAMES = Pattern.compile("\\b(?:config\\.|dpb_(?:new_)?)?[a-z]+(?:_[a-z]+)+\\b");

    private final Status status;
    private final int done;

    private DpbException(Status status, String message, int done) {
        super(status + ": " + message);
        this.status = status;
        this.done = done;
    }

    static DpbException of(Status status) {
        return new DpbException(status, status.text(), 0);
    }

    /** With the message of C; "": that of the status. */
    static DpbException of(int number, String message) {
        return of(number, message, 0);
    }

    static DpbException of(int number, String message, int done) {
        Status status = Status.of(number);
        return new DpbException(status, message.isEmpty() ? status.text() : inJava(message), done);
    }

    static DpbException invalid(String message) {
        return new DpbException(Status.INVALID_CONFIG, message, 0);
    }

    static DpbException request(String message) {
        return new DpbException(Status.INVALID_REQUEST, message, 0);
    }

    /** Returns the reason. */
    public Status status() {
        return status;
    }

    /** Of {@link Bandit#selectMany}: returns the number of requests that were decided before the refused one. */
    public int done() {
        return done;
    }

    /** A message in the names of Java. */
    static String inJava(String message) {
        String text = message.replace("NULL", "null").replace("DPB_CLOCK_", "Clock.");
        for (int i = 0; i < Fields.REVALUED.length; i += 2) {
            text = text.replace(Fields.REVALUED[i], Fields.REVALUED[i + 1]);
        }
        return NAMES.matcher(text).replaceAll(DpbException::name);
    }

    private static String name(MatchResult found) {
        String name = found.group().replaceFirst("^(?:config\\.|dpb_(?:new_)?)", "");
        if (name.endsWith("_ms")) {
            return name.substring(0, name.length() - 3) + " in milliseconds";
        }
        StringBuilder camel = new StringBuilder();
        for (String word : name.split("_")) {
            camel.append(camel.isEmpty() ? word : word.substring(0, 1).toUpperCase(Locale.ROOT) + word.substring(1));
        }
        return Fields.RENAMED.getOrDefault(name, camel.toString());
    }
}
