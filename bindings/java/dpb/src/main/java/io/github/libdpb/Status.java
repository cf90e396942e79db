package io.github.libdpb;

/** Why a call was refused. A refused call has changed nothing, unless its comment says otherwise. */
public enum Status {
    /** The call succeeded. */
    OK(Native.DPB_OK, "ok"),
    /** The object is closed. */
    CLOSED(Native.DPB_NULL, "closed"),
    /** A configuration or an argument is out of its range. The message names the field and the value. */
    INVALID_CONFIG(Native.DPB_INVALID_CONFIG, "a configuration or an argument is out of its range"),
    /**
     * The reward is not finite, or outside the declared range; with {@code rewardBits} 0 also: it is neither
     * {@code rewardMin} nor {@code rewardMax}. The decision stays open.
     */
    INVALID_REWARD(Native.DPB_INVALID_REWARD, "the reward is not finite, or outside the declared range"),
    /** This bandit never issued this ticket. */
    UNKNOWN_TICKET(Native.DPB_UNKNOWN_TICKET, "this bandit never issued this ticket"),
    /** The ticket already has a reward, or is cancelled; or the contribution was added before. */
    DUPLICATE(Native.DPB_DUPLICATE, "the ticket has a reward or is cancelled already"),
    /**
     * The reward window of the ticket is over, or a later decision took its place in the pending table; or the
     * contribution is for another generation.
     */
    EXPIRED(Native.DPB_EXPIRED, "the ticket has expired"),
    /**
     * There is no result yet; or a restored bandit that counts users waits for {@link Bandit#stored}, or a resumed
     * one for {@link Bandit#claimed}.
     */
    NOT_READY(Native.DPB_NOT_READY, "no result yet, or the bandit waits for stored or claimed"),
    /** It has ended: a stopping rule, a full counter, a suspended bandit, or a node that has left. */
    HALTED(Native.DPB_HALTED, "it has ended and takes no more"),
    /** A buffer is too small. Programs in Java do not see this status. */
    BUFFER_TOO_SMALL(Native.DPB_BUFFER_TOO_SMALL, "a buffer is too small"),
    /** The bytes are truncated or altered. */
    CORRUPT(Native.DPB_CORRUPT, "the bytes are truncated or altered"),
    /** A newer library made these bytes. */
    NEWER_VERSION(Native.DPB_NEWER_VERSION, "a newer library made these bytes"),
    /** The operating system gave no randomness, without which nothing is private. */
    ENTROPY(Native.DPB_ENTROPY, "no randomness from the operating system"),
    /** This policy or this configuration does not support the call. */
    UNSUPPORTED(Native.DPB_UNSUPPORTED, "this policy or this configuration does not support the call"),
    /**
     * An earlier call failed half-way, or the process was forked after the object was made. It stays unusable, because
     * further use could break the privacy accounting.
     */
    POISONED(Native.DPB_POISONED, "an earlier call failed half-way, or the process was forked"),
    /** There is not enough memory. Nothing has changed. */
    NO_MEMORY(Native.DPB_NO_MEMORY, "not enough memory"),
    /** The request names a new segment, and the bandit has {@code maxSegments} of them. */
    FULL(Native.DPB_FULL, "full"),
    /** The budget has too little left for this bandit, or all {@code budgetPeriods} have begun. */
    OVER_BUDGET(Native.DPB_OVER_BUDGET, "over budget"),
    /** The request cannot be met: an arm that does not exist or is retired, no arm at all, a wrong length. */
    INVALID_REQUEST(Native.DPB_INVALID_REQUEST, "the request cannot be met");

    private static final Status[] BY_NUMBER = new Status[32];

    static {
        for (Status status : values()) {
            BY_NUMBER[status.number] = status;
        }
    }

    private final int number;
    private final String text;

    Status(int number, String text) {
        this.number = number;
        this.text = text;
    }

    String text() {
        return text;
    }

    static Status of(int number) {
        return BY_NUMBER[number];
    }
}
