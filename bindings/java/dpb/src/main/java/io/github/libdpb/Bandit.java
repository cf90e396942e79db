package io.github.libdpb;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Chooses an arm for each decision, and learns from rewards. What anybody sees of decisions and reports reveals a
 * reward by at most epsilon: docs/privacy.md has the guarantee.
 *
 * <pre>{@code
 * try (Bandit bandit = new Bandit(new Config(10, 1.0).rewardWindow(1000))) {
 *     Decision ad = bandit.select(new Decision());
 *     bandit.update(ad.ticket(), 1.0); // a click
 * }
 * }</pre>
 *
 * <p>Any number of threads may use a bandit. Close it when done: the garbage collector does not see its memory, and
 * frees it only when it collects the object. A call after {@link #close} is {@link Status#CLOSED}, and every call of a
 * process that was forked after the bandit was made is {@link Status#POISONED}.
 */
public final class Bandit extends Handle {
    /** How old a state at rest may be, in seconds, when {@link #resume} continues from it. */
    public static final int STATE_LIFETIME = Native.DPB_STATE_LIFETIME;

    /** Whose bandit it is; it keeps the node from being collected. */
    private final FleetNode node;

    /**
     * Makes a bandit with the recommended policy: dp-linear with {@link Config#features(int)}, otherwise dp-imed.
     *
     * @throws DpbException {@link Status#INVALID_CONFIG}, which names the field; {@link Status#OVER_BUDGET};
     *     {@link Status#ENTROPY}; {@link Status#NO_MEMORY}
     */
    public Bandit(Config config) {
        this(make(config, (c, out, error) -> Native.dpb_new(c, out, error)), null);
    }

    /** Makes a bandit with this policy. The errors are those of {@link #Bandit(Config)}. */
    public Bandit(Policy policy, Config config) {
        this(named(policy, config), null);
    }

    private Bandit(long address, FleetNode node) {
        super(address, node == null ? Native::dpb_free : null);
        this.node = node;
    }

    /** The bandit of a node, which frees it. */
    static Bandit of(FleetNode node, long address) {
        return new Bandit(address, node);
    }

    private static long named(Policy policy, Config config) {
        try (Arena arena = Arena.ofConfined()) {
            long name = arena.allocateFrom(policy.label()).address();
            return make(config, (c, out, error) -> Native.dpb_new_policy(name, c, out, error));
        }
    }

    /** A constructor of C, with the addresses of its configuration, its result and its error. */
    interface Maker {
        int make(long config, long out, long error);
    }

    static long make(Config config, Maker maker) {
        Budget budget = config.budget();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(8, 8);
            long charged = budget == null ? 0 : budget.enter();
            try {
                long c = config.write(arena, charged).address();
                explain(error -> maker.make(c, out.address(), error));
            } finally {
                if (budget != null) {
                    budget.leave();
                }
            }
            return out.get(JAVA_LONG, 0);
        }
    }

    /**
     * Makes a bandit from a {@link #snapshot}, with the configuration in it and fresh entropy. The decisions that were
     * open have expired, and their tickets are {@link Status#UNKNOWN_TICKET}. The guarantee holds for all restarts
     * together, however old the snapshot is.
     *
     * <p>With {@link Config#expectedUsers(long)} a new period begins, and decisions are {@link Status#NOT_READY} until
     * {@link #stored}: write a snapshot of the new bandit to the file that the next restart reads, call stored, then
     * serve.
     *
     * @throws DpbException {@link Status#CORRUPT}; {@link Status#NEWER_VERSION}; {@link Status#OVER_BUDGET}: all
     *     budgetPeriods have begun; {@link Status#ENTROPY}; {@link Status#NO_MEMORY}
     */
    public static Bandit restore(byte[] snapshot) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(8, 8);
            long bytes = arena.allocateFrom(JAVA_BYTE, snapshot).address();
            explain(error -> Native.dpb_restore(bytes, snapshot.length, out.address(), error));
            return new Bandit(out.get(JAVA_LONG, 0), null);
        }
    }

    /**
     * The same with another configuration. The policy and the fields that say how released numbers are read, such as
     * arms and epsilon, must be those of the snapshot; dpb_restore_as in dpb.h lists them. The other fields, such as
     * rewardWindow, are taken from the configuration. It does not use {@link Config#testSeed()}, and charges
     * {@link Config#budget()} as for a new bandit.
     *
     * @param policy null for the policy that {@link #Bandit(Config)} takes
     * @throws DpbException as {@link #restore(byte[])}; {@link Status#INVALID_CONFIG}, which names the field
     */
    public static Bandit restore(byte[] snapshot, Policy policy, Config config) {
        try (Arena arena = Arena.ofConfined()) {
            long name = policy == null ? 0 : arena.allocateFrom(policy.label()).address();
            long bytes = arena.allocateFrom(JAVA_BYTE, snapshot).address();
            return new Bandit(
                    make(
                            config,
                            (c, out, error) -> Native.dpb_restore_as(name, c, bytes, snapshot.length, out, error)),
                    null);
        }
    }

    /**
     * Continues from a state of {@link #suspend}, as if that bandit had never ended. A state at rest is held: until
     * {@link #claimed} every call but {@link #report} and {@link #close} is {@link Status#NOT_READY}.
     *
     * <p>The policy is that of the state, and the configuration needs the {@link Config#fleetKey(byte[])}. With
     * policies that merge, beta, horizon, forgetAfter, exploration, clampRewards and budgetPeriods may differ from the
     * suspended bandit's; with the others no field but the budget. Merge the others' newest snapshots again.
     *
     * @throws DpbException {@link Status#CORRUPT}: the key did not seal it as a state; {@link Status#EXPIRED}: the
     *     receiver is not of this process, or has had its state, or a state at rest is older than
     *     {@link #STATE_LIFETIME}; {@link Status#INVALID_CONFIG}; {@link Status#OVER_BUDGET};
     *     {@link Status#UNSUPPORTED}: no fleetKey
     */
    public static Bandit resume(Config config, byte[] state) {
        try (Arena arena = Arena.ofConfined()) {
            long bytes = arena.allocateFrom(JAVA_BYTE, state).address();
            return new Bandit(
                    make(config, (c, out, error) -> Native.dpb_resume(0, c, bytes, state.length, out, error)), null);
        }
    }

    /** Waits for calls that run, and frees the memory. Does nothing to the bandit of a {@link FleetNode}. */
    @Override
    public void close() {
        if (node == null) {
            super.close();
        }
    }

    /** Ends the bandit of a node. */
    void closeWithNode() {
        super.close();
    }

    // Decisions and rewards.

    /**
     * Chooses an arm, and writes it to the decision, which it returns. Allocates nothing.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: with expectedUsers, maxSegments or features, which need a
     *     request; {@link Status#NOT_READY}: a restored bandit before {@link #stored}
     */
    public Decision select(Decision out) {
        Objects.requireNonNull(out);
        MemorySegment memory = Scratch.get().memory(Native.dpb_decision.SIZE);
        long c = enter();
        try {
            int status = Native.dpb_select(c, memory.address());
            if (status != Native.DPB_OK) {
                boolean needs = status == Native.DPB_UNSUPPORTED;
                throw DpbException.of(
                        status, needs ? "with expectedUsers, maxSegments or features a decision needs a request" : "");
            }
        } finally {
            leave();
        }
        out.read(memory, 0);
        return out;
    }

    /**
     * Chooses an arm for a request of one slot, and writes it to the decision, which it returns. After a refusal
     * nothing has changed or been counted. Allocates nothing.
     *
     * @throws DpbException {@link Status#INVALID_REQUEST}: no decision can meet the request;
     *     {@link Status#UNSUPPORTED}: a field that the policy or the configuration does not support;
     *     {@link Status#FULL}: a segment too many; {@link Status#NOT_READY}: a restored bandit before {@link #stored}
     */
    public Decision select(Request request, Decision out) {
        Objects.requireNonNull(out);
        if (request.slots() != 1) {
            throw DpbException.request("slots must be 1 for one decision, got " + request.slots());
        }
        out.read(decide(request, 1), 0);
        return out;
    }

    /**
     * Chooses a different arm for each slot of a request, and writes the decisions. Their order is no ranking, unless
     * the request has {@link Request#examined}. {@link Config#maxSlots(int)} determines whether epsilon is of one
     * reward or of one request with all its rewards. Allocates nothing. The errors are those of
     * {@link #select(Request, Decision)}.
     *
     * @param out as many as the request has slots
     */
    public void selectSlots(Request request, Decision[] out) {
        requireAll(out);
        if (request.slots() != out.length || out.length == 0) {
            throw DpbException.request("slots is " + request.slots() + ", but got " + out.length + " decisions");
        }
        MemorySegment memory = decide(request, out.length);
        for (int i = 0; i < out.length; i++) {
            out[i].read(memory, i * Native.dpb_decision.SIZE);
        }
    }

    private MemorySegment decide(Request request, int slots) {
        long at = slots * Native.dpb_decision.SIZE;
        MemorySegment memory = Scratch.get().memory(at + Native.dpb_request.SIZE + request.bytes());
        request.write(memory, slots, at, at + Native.dpb_request.SIZE);
        long c = enter();
        try {
            int status = Native.dpb_select_for(c, memory.address() + at, memory.address());
            if (status != Native.DPB_OK) {
                throw refusal(c, status, memory.address() + at, 0);
            }
        } finally {
            leave();
        }
        return memory;
    }

    /** The exception of a refused request, with the message of dpb_request_check, if it still would be refused. */
    private static DpbException refusal(long c, int status, long request, int done) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment error = arena.allocate(Native.dpb_error.SIZE, 8);
            int again = Native.dpb_request_check(c, request, error.address());
            return DpbException.of(status, again == status ? error.getString(Native.dpb_error.message) : "", done);
        }
    }

    /**
     * Decides requests in turn, 64 at a time under one lock, and writes the decisions of all slots, request by request.
     * Allocates nothing.
     *
     * @param out as many as all requests have slots
     * @throws DpbException of the first request that is refused: {@link DpbException#done} is its index, and the
     *     decisions of those before it are written
     */
    public void selectMany(Request[] requests, Decision[] out) {
        requireAll(requests);
        requireAll(out);
        long all = 0;
        for (Request request : requests) {
            all += Math.max(request.slots(), 0);
        }
        if (all != out.length) {
            throw DpbException.request("the requests have " + all + " slots, but got " + out.length + " decisions");
        }
        Scratch scratch = Scratch.get();
        int next = 0;
        for (int from = 0; from < requests.length; from += Scratch.PIECE) {
            int n = Math.min(Scratch.PIECE, requests.length - from);
            long slots = 0;
            long lists = 0;
            for (int i = 0; i < n; i++) {
                Request request = requests[from + i];
                scratch.slots[i] = Math.max(request.slots(), 0);
                slots += scratch.slots[i];
                lists += request.bytes();
            }
            // A number, the decisions, the requests, their lists.
            long first = 8 + slots * Native.dpb_decision.SIZE;
            long end = first + n * Native.dpb_request.SIZE;
            MemorySegment memory = scratch.memory(end + lists);
            for (int i = 0; i < n; i++) {
                end = requests[from + i].write(memory, scratch.slots[i], first + i * Native.dpb_request.SIZE, end);
            }
            long c = enter();
            try {
                memory.set(JAVA_LONG, 0, 0);
                int status = Native.dpb_select_many(
                        c, memory.address() + first, n, memory.address() + 8, memory.address());
                int done = (int) scratch.number();
                long at = 8;
                for (int i = 0; i < done; i++) {
                    for (int slot = 0; slot < scratch.slots[i]; slot++, at += Native.dpb_decision.SIZE) {
                        out[next++].read(memory, at);
                    }
                }
                if (status != Native.DPB_OK) {
                    throw refusal(c, status, memory.address() + first + done * Native.dpb_request.SIZE, from + done);
                }
            } finally {
                leave();
            }
        }
    }

    private static void requireAll(Object[] all) {
        for (Object one : all) {
            Objects.requireNonNull(one);
        }
    }

    /**
     * Throws the exception with which a request would be refused now. Changes and counts nothing.
     *
     * @throws DpbException as {@link #select(Request, Decision)}
     */
    public void check(Request request) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment memory = arena.allocate(Native.dpb_request.SIZE + request.bytes(), 8);
            request.write(memory, request.slots(), 0, Native.dpb_request.SIZE);
            explained((c, error) -> Native.dpb_request_check(c, memory.address(), error));
        }
    }

    /**
     * Reports the reward of a decision, once for each ticket. Allocates nothing, unless it is refused.
     *
     * <p>The status reveals whether the ticket had a reward before: give a visitor the same reply whatever it is.
     *
     * @param reward between {@link Config#rewardMin(double)} and {@link Config#rewardMax(double)}
     * @throws DpbException {@link Status#INVALID_REWARD}: the ticket stays open; {@link Status#UNKNOWN_TICKET};
     *     {@link Status#DUPLICATE}; {@link Status#EXPIRED}
     */
    public void update(long ticket, double reward) {
        long c = enter();
        try {
            check(Native.dpb_update(c, ticket, reward));
        } finally {
            leave();
        }
    }

    /**
     * Reports a part of the reward of a decision: with {@link Config#partWeights(double...)} each part once for each
     * ticket, in any order, until its window is over. {@link #update} reports part 0.
     *
     * @param part from 0
     * @param value in the part's own unit, of any sign
     * @throws DpbException as {@link #update}; {@link Status#INVALID_CONFIG}: no such part
     */
    public void updatePart(long ticket, int part, double value) {
        long c = enter();
        try {
            check(Native.dpb_update_part(c, ticket, part, value));
        } finally {
            leave();
        }
    }

    /**
     * Reports the rewards of many decisions, 4096 at a time under one lock. Every reward is tried, even if earlier ones
     * are refused.
     *
     * @param rewards one for each ticket
     * @param each null, or receives the status of each ticket
     * @return the number of rewards that were accepted
     * @throws DpbException {@link Status#INVALID_CONFIG}: the lengths differ; {@link Status#POISONED}. A refused reward
     *     throws nothing.
     */
    public int updateMany(long[] tickets, double[] rewards, Status[] each) {
        if (tickets.length != rewards.length || each != null && each.length != tickets.length) {
            throw DpbException.invalid("tickets, rewards and each must have one length, got " + tickets.length + ", "
                    + rewards.length + (each == null ? "" : " and " + each.length));
        }
        int accepted = 0;
        for (int from = 0; from < tickets.length; from += 4096) {
            int n = Math.min(4096, tickets.length - from);
            Scratch scratch = Scratch.get();
            MemorySegment m = scratch.memory(8 + 20L * n);
            long rewardsAt = 8 + 8L * n;
            long eachAt = rewardsAt + 8L * n;
            MemorySegment.copy(tickets, from, m, JAVA_LONG, 8, n);
            MemorySegment.copy(rewards, from, m, JAVA_DOUBLE, rewardsAt, n);
            m.set(JAVA_LONG, 0, 0);
            long c = enter();
            int status;
            try {
                long base = m.address();
                status = Native.dpb_update_many(c, base + 8, base + rewardsAt, n, base + eachAt, base);
            } finally {
                leave();
            }
            if (status == Native.DPB_POISONED) {
                throw DpbException.of(status, "");
            }
            accepted += (int) scratch.number();
            for (int i = 0; each != null && i < n; i++) {
                each[from + i] = Status.of(m.get(JAVA_INT, eachAt + 4L * i));
            }
        }
        return accepted;
    }

    /**
     * Cancels a decision: it counts as not played, for example because the ad was never shown. The reason and the time
     * must not depend on the reward. With rewardWindow it also drops a reward that waits.
     *
     * @throws DpbException {@link Status#UNKNOWN_TICKET}; {@link Status#DUPLICATE}; {@link Status#EXPIRED}
     */
    public void cancel(long ticket) {
        call(c -> Native.dpb_cancel(c, ticket));
    }

    /**
     * Cancels every open decision, also one whose reward waits for its window. Use it in an outage in which rewards
     * could not arrive: at least once in each rewardWindow during it, and once after it. Never call it because of the
     * values or the number of rewards.
     */
    public void cancelAll() {
        call(Native::dpb_cancel_all);
    }

    /**
     * Sets the time of a bandit with {@link Clock#CALLER}. Rewards whose rewardWindow is over take effect, and older
     * evidence is discounted. A time that is slightly earlier than the last one changes nothing.
     *
     * <p>A decision gets the time of the last call, so call it before the first decision, and then by a timer or before
     * each decision. Time is public: never call it because of a reward.
     *
     * @param now in any unit, the same in all restarts, on a clock that continues over them: such as
     *     {@link System#currentTimeMillis}
     * @throws DpbException {@link Status#UNSUPPORTED} with {@link Clock#DECISIONS}
     */
    public void advance(long now) {
        call(c -> Native.dpb_advance(c, now));
    }

    /**
     * Lets ticks pass without decisions: rewards whose rewardWindow is over take effect. For a bandit that decides
     * nothing more. Where a tick is a decision, a skipped one counts as a decision that was cancelled at once.
     *
     * @param ticks must not depend on rewards
     */
    public void skip(long ticks) {
        call(c -> Native.dpb_skip(c, Native.count("ticks", ticks)));
    }

    /**
     * Begins a new period. The bandit learns again from {@link Config#contributionsPerUser(int)} decisions of every
     * user, and the privacy loss of a person who comes in every period grows by that of one period. Write a
     * {@link #snapshot} right after it, and call {@link #stored}: until then the bandit learns from nobody.
     *
     * @throws DpbException {@link Status#UNSUPPORTED} without expectedUsers; {@link Status#OVER_BUDGET}: all
     *     budgetPeriods have begun, and the last one continues
     */
    public void nextPeriod() {
        call(Native::dpb_next_period);
    }

    // Arms.

    /**
     * Adds an arm, which gets the next number. Numbers are never used again.
     *
     * @param id 0 for an arm that only this bandit has; otherwise the id that names the arm in all bandits of a fleet,
     *     at least {@link Config#arms()}. If a live arm has this id, nothing changes, and its number is returned.
     * @throws DpbException {@link Status#INVALID_CONFIG}: too many arms, or an id that is too small;
     *     {@link Status#INVALID_REQUEST}: the id of a retired arm; {@link Status#UNSUPPORTED}; {@link Status#NO_MEMORY}
     */
    public int addArm(long id) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment arm = arena.allocate(4, 8);
            explained((c, error) -> Native.dpb_add_arm(c, id, arm.address(), error));
            return arm.get(JAVA_INT, 0);
        }
    }

    /**
     * Retires an arm: it is never played again. Rewards of its open decisions are accepted as before.
     *
     * @throws DpbException {@link Status#INVALID_REQUEST}: no such arm, retired already, or the last one;
     *     {@link Status#UNSUPPORTED}: this policy's set of arms is fixed
     */
    public void retireArm(int arm) {
        call(c -> Native.dpb_retire_arm(c, arm));
    }

    /**
     * States what public data say of an arm, such as last season's rates. Learning starts from it, and a wrong prior
     * ends when the arm's releases contradict it. One made from public data costs no privacy; one made from private
     * sums would reveal them without noise.
     *
     * @param mean between rewardMin and rewardMax
     * @param strength 1 to 2^24: the number of real rewards that you consider equally informative
     * @throws DpbException {@link Status#INVALID_CONFIG}; {@link Status#INVALID_REQUEST}: no such arm;
     *     {@link Status#UNSUPPORTED}
     */
    public void setPrior(int arm, double mean, double strength) {
        explained((c, error) -> Native.dpb_set_prior(c, arm, mean, strength, error));
    }

    // What it has learned and spent.

    /** Reads the public state. Reading costs no privacy. */
    public Report report() {
        try (Arena arena = Arena.ofConfined()) {
            return Report.of(sized(arena, Native.dpb_report.SIZE, Native::dpb_report_read));
        }
    }

    /** Reads the counts of refused calls, and warnings from rewards. They are NOT private. */
    public Diagnostics diagnostics() {
        try (Arena arena = Arena.ofConfined()) {
            return Diagnostics.of(sized(arena, Native.dpb_diagnostics.SIZE, Native::dpb_diagnostics_read));
        }
    }

    /**
     * Reads what the test of {@link Policy#TT} says. Takes some milliseconds while the test goes on.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: another policy
     */
    public Verdict verdict() {
        try (Arena arena = Arena.ofConfined()) {
            return Verdict.of(sized(arena, Native.dpb_verdict.SIZE, Native::dpb_verdict_read));
        }
    }

    /**
     * Returns what the bandit guarantees, as JSON in the fields of the public registry of deployments of differential
     * privacy. All of it is public.
     */
    public String statement() {
        return statement(Native.DPB_STATEMENT_JSON);
    }

    /** Returns {@link #statement()} as a page of prose for a privacy officer. */
    public String statementText() {
        return statement(Native.DPB_STATEMENT_PROSE);
    }

    private String statement(int form) {
        byte[] text = written((c, buf, cap, len, error) -> Native.dpb_statement(c, form, buf, cap, len, error));
        return new String(text, StandardCharsets.UTF_8);
    }

    /** Reads a struct that begins with its size. */
    private MemorySegment sized(Arena arena, long size, CallWith call) {
        MemorySegment out = arena.allocate(size, 8);
        out.set(JAVA_INT, 0, (int) size);
        call(c -> call.run(c, out.address()));
        return out;
    }

    /** A dpb_verdict in words. */
    static String words(MemorySegment verdict) {
        byte[] text = written((buf, cap, len, error) ->
                Native.dpb_verdict_text(verdict.address(), buf, cap, len, error));
        return new String(text, StandardCharsets.UTF_8);
    }

    /**
     * Reads the public state of all arms, by number. With segments the mean is an estimate for an average segment, and
     * the width NaN: see {@link #segment}.
     */
    public List<Arm> arms() {
        return arms(Native::dpb_arms_read);
    }

    /**
     * Reads all arms of a segment: the mean is the estimate for this segment, from the releases of all segments, and
     * the width NaN. effectivePulls counts the rewards in the segment's own releases.
     *
     * @param key of an earlier request
     * @throws DpbException {@link Status#INVALID_REQUEST}: no request had this key; {@link Status#UNSUPPORTED} without
     *     maxSegments
     */
    public List<Arm> segment(long key) {
        return arms((c, out, cap, n) -> Native.dpb_segment_read(c, key, out, cap, n));
    }

    /** A call that writes some structs, as many as it says. */
    private interface Reader {
        int read(long c, long out, long cap, long n);
    }

    private List<Arm> arms(Reader reader) {
        long c = enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment n = arena.allocate(8, 8);
            MemorySegment out = MemorySegment.NULL;
            int status = reader.read(c, 0, 0, n.address());
            while (status == Native.DPB_BUFFER_TOO_SMALL) {
                out = arena.allocate(n.get(JAVA_LONG, 0) * Native.dpb_arm.SIZE, 8);
                status = reader.read(c, out.address(), out.byteSize() / Native.dpb_arm.SIZE, n.address());
            }
            check(status);
            List<Arm> arms = new ArrayList<>();
            for (long i = 0; i < n.get(JAVA_LONG, 0); i++) {
                arms.add(Arm.of(out.asSlice(i * Native.dpb_arm.SIZE, Native.dpb_arm.SIZE)));
            }
            return List.copyOf(arms);
        } finally {
            leave();
        }
    }

    /**
     * Estimates the mean reward of each eligible arm of a request with features, in that order; without eligible arms
     * of every arm by its number. Estimates are functions of releases, so they cost no privacy.
     *
     * @throws DpbException {@link Status#UNSUPPORTED} without features; {@link Status#INVALID_REQUEST}
     */
    public List<Prediction> predict(Request request) {
        long c = enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment given = arena.allocate(Native.dpb_request.SIZE + request.bytes(), 8);
            request.write(given, 1, 0, Native.dpb_request.SIZE);
            MemorySegment n = arena.allocate(8, 8);
            MemorySegment out = MemorySegment.NULL;
            int status = Native.dpb_predict(c, given.address(), 0, 0, 0, n.address());
            while (status == Native.DPB_BUFFER_TOO_SMALL) {
                long cap = n.get(JAVA_LONG, 0);
                out = arena.allocate(16 * cap, 8);
                status = Native.dpb_predict(
                        c, given.address(), out.address(), out.address() + 8 * cap, cap, n.address());
            }
            if (status != Native.DPB_OK) {
                throw refusal(c, status, given.address(), 0);
            }
            return predictions(out, n.get(JAVA_LONG, 0));
        } finally {
            leave();
        }
    }

    /**
     * Reads the weight of each feature in the model of an arm: by how much one unit of the feature changes the logit of
     * the mean reward, with its standard deviation. The intercept is the last one. With one model for all arms every arm
     * has its weights. They are functions of releases and features, so they cost no privacy.
     *
     * @throws DpbException {@link Status#UNSUPPORTED} without features; {@link Status#INVALID_REQUEST}: no such arm
     */
    public List<Prediction> featureWeights(int arm) {
        long c = enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment n = arena.allocate(8, 8);
            MemorySegment out = MemorySegment.NULL;
            int status = Native.dpb_feature_weights(c, arm, 0, 0, 0, n.address());
            while (status == Native.DPB_BUFFER_TOO_SMALL) {
                long cap = n.get(JAVA_LONG, 0);
                out = arena.allocate(16 * cap, 8);
                status = Native.dpb_feature_weights(
                        c, arm, out.address(), out.address() + 8 * cap, cap, n.address());
            }
            check(status);
            return predictions(out, n.get(JAVA_LONG, 0));
        } finally {
            leave();
        }
    }

    private static List<Prediction> predictions(MemorySegment out, long n) {
        List<Prediction> all = new ArrayList<>();
        long half = out.byteSize() / 16;
        for (long i = 0; i < n; i++) {
            all.add(new Prediction(out.getAtIndex(JAVA_DOUBLE, i), out.getAtIndex(JAVA_DOUBLE, half + i)));
        }
        return List.copyOf(all);
    }

    /**
     * Reads the probability of each arm, by its number, in the next decision of a request of one slot, as integers that
     * sum to 2^32, for a table by which programs decide elsewhere ({@link Elsewhere#decide}). They are functions of
     * releases, so they cost no privacy. An arm that the decision cannot have has 0. Changes and counts nothing.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: a policy that plans single decisions (dp-med and dp-linear have
     *     weights); {@link Status#INVALID_REQUEST}
     */
    public long[] weights(Request request) {
        long c = enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment given = arena.allocate(Native.dpb_request.SIZE + request.bytes(), 8);
            request.write(given, 1, 0, Native.dpb_request.SIZE);
            MemorySegment n = arena.allocate(8, 8);
            MemorySegment out = MemorySegment.NULL;
            MemorySegment error = arena.allocate(Native.dpb_error.SIZE, 8);
            int status = Native.dpb_weights(c, given.address(), 0, 0, n.address(), error.address());
            while (status == Native.DPB_BUFFER_TOO_SMALL) {
                long cap = n.get(JAVA_LONG, 0);
                out = arena.allocate(8 * cap, 8);
                status = Native.dpb_weights(
                        c, given.address(), out.address(), cap, n.address(), error.address());
            }
            if (status != Native.DPB_OK) {
                throw DpbException.of(status, error.getString(Native.dpb_error.message));
            }
            return out.asSlice(0, 8 * n.get(JAVA_LONG, 0)).toArray(JAVA_LONG);
        } finally {
            leave();
        }
    }

    /**
     * Begins a version of this bandit's table, and returns its number, which no other version of this bandit has,
     * whatever restarts. Publish it with the {@link #weights} of each request that programs elsewhere decide. The
     * version before it closes after grace more ticks of the bandit's clock, and all earlier ones at once. When you call
     * it must not depend on rewards, but by releases.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: {@link Config#tableCapacity(int)} is 0, or the policy takes no
     *     eligible arms
     */
    public long tableBegin(long grace) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment version = arena.allocate(8, 8);
            explained((c, error) -> Native.dpb_table_begin(c, grace, version.address(), error));
            return version.get(JAVA_LONG, 0);
        }
    }

    /**
     * Begins a version of this bandit's table ({@link #tableBegin}), and returns the table as JSON, for programs that decide
     * without a bandit. Publish one every few minutes: a visitor keeps an arm so long.
     *
     * @throws DpbException {@link Status#INVALID_CONFIG}: another number of names than arms; as {@link #weights} and
     *     {@link #tableBegin}. Then no version has begun
     */
    public String publish(Publication publication) {
        return publication.publish(this);
    }

    /**
     * Records a decision that was made elsewhere by a version of this bandit's table, once whatever is repeated, and
     * writes it to the decision, which it returns. The one eligible arm of the request is the arm that was shown. A
     * repeat of an id gives the same decision until that ends. Its propensity is NaN, because the table has it. Record
     * each decision that was shown, and no other: which ones must not depend on rewards. Allocates nothing.
     *
     * @throws DpbException {@link Status#EXPIRED}: a version that is closed, or not of this life of this bandit;
     *     {@link Status#DUPLICATE}: the decision of the id has ended; {@link Status#FULL}: tableCapacity; as
     *     {@link #select(Request, Decision)}
     */
    public Decision record(long version, long id, Request request, Decision out) {
        Objects.requireNonNull(out);
        long at = Native.dpb_decision.SIZE;
        MemorySegment memory = Scratch.get().memory(at + Native.dpb_request.SIZE + request.bytes());
        request.write(memory, 1, at, at + Native.dpb_request.SIZE);
        long c = enter();
        try {
            check(Native.dpb_record(c, version, id, memory.address() + at, memory.address()));
        } finally {
            leave();
        }
        out.read(memory, 0);
        return out;
    }

    /**
     * Finds the decision of an id that was recorded, for a reward that names the id, and writes it to the decision, which
     * it returns. Opens nothing.
     *
     * @throws DpbException {@link Status#UNKNOWN_TICKET}: an id that is not recorded; {@link Status#DUPLICATE}: its
     *     decision has ended; {@link Status#EXPIRED}: an unknown id of a version that is closed
     */
    public Decision find(long version, long id, Decision out) {
        Objects.requireNonNull(out);
        MemorySegment memory = Scratch.get().memory(Native.dpb_decision.SIZE);
        call(c -> Native.dpb_find(c, version, id, memory.address()));
        out.read(memory, 0);
        return out;
    }

    /**
     * Returns the arm that the policy decided for.
     *
     * @throws DpbException {@link Status#NOT_READY} until it has decided; {@link Status#UNSUPPORTED}: a policy that
     *     never decides
     */
    public int bestArm() {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 4, Native::dpb_best_arm).get(JAVA_INT, 0);
        }
    }

    /**
     * Reads a confidence interval for the mean of arm i minus that of arm j. If its lower end is above 0, arm i is
     * better. With probability at least confidence all intervals that this bandit ever gives for these two arms contain
     * the true difference, however often you read and whenever you stop. Takes some milliseconds.
     *
     * @param confidence in (0, 1)
     * @throws DpbException {@link Status#NOT_READY} until both arms have a release; {@link Status#INVALID_REQUEST}: no
     *     such arm; {@link Status#INVALID_CONFIG}: i = j, or confidence; {@link Status#UNSUPPORTED}: with forgetAfter,
     *     and other policies
     */
    public Interval compare(int i, int j, double confidence) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment ends =
                    read(arena, 16, (c, out) -> Native.dpb_compare(c, i, j, confidence, out, out + 8));
            return new Interval(ends.get(JAVA_DOUBLE, 0), ends.get(JAVA_DOUBLE, 8));
        }
    }

    /**
     * Reads what the policy has gained, as a confidence interval: the mean reward of the decisions so far, divided by
     * that of a control, minus 1. From 0.12 to 0.19 is 12% to 19% better. Valid however often you read and whenever you
     * stop. It takes the mean of each arm for constant. Takes about a millisecond for each arm. With features it needs
     * exploration, and compares samples of the policy's own decisions and of even draws for the same requests.
     *
     * @param control an arm; or {@link Decision#NO_ARM}, an even draw of all arms that are not retired
     * @param confidence in (0, 1)
     * @throws DpbException {@link Status#NOT_READY} until each arm of the control has a release; {@link
     *     Status#INVALID_REQUEST}: no such arm; {@link Status#INVALID_CONFIG}: confidence; {@link Status#UNSUPPORTED}:
     *     where {@link #compare} is, with maxSegments, and a rewardMin below 0
     */
    public Interval lift(int control, double confidence) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment ends =
                    read(arena, 16, (c, out) -> Native.dpb_lift(c, control, confidence, out, out + 8));
            return new Interval(ends.get(JAVA_DOUBLE, 0), ends.get(JAVA_DOUBLE, 8));
        }
    }

    /**
     * Returns an upper bound of the privacy loss of one user so far: infinite for baselines, and for a delta at which
     * the policy has no guarantee.
     *
     * @param delta in [0, 1)
     */
    public double epsilonSpent(double delta) {
        try (Arena arena = Arena.ofConfined()) {
            return read(arena, 8, (c, out) -> Native.dpb_epsilon_spent(c, delta, out)).get(JAVA_DOUBLE, 0);
        }
    }

    /** Returns the policy. */
    public Policy policy() {
        long c = enter();
        try {
            return Policy.named(Native.text(Native.dpb_policy_name(c)));
        } finally {
            leave();
        }
    }

    // Snapshots, states that move, fleets.

    /**
     * Returns what the bandit has released, and what is public: no raw sum and no reward. A restored bandit starts
     * without the open decisions.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: a policy whose state is not all released
     */
    public byte[] snapshot() {
        return written((c, buf, cap, len, error) -> Native.dpb_snapshot(c, buf, cap, len, error));
    }

    /** A call that writes bytes, with the address of the object. */
    private interface OwnWriter {
        int write(long c, long buf, long cap, long len, long error);
    }

    private byte[] written(OwnWriter writer) {
        long c = enter();
        try {
            return written((buf, cap, len, error) -> writer.write(c, buf, cap, len, error));
        } finally {
            leave();
        }
    }

    /** A call that reads bytes, with the address of the object. */
    private interface OwnReader {
        int read(long c, long bytes, long len, long error);
    }

    private void given(byte[] bytes, OwnReader reader) {
        try (Arena arena = Arena.ofConfined()) {
            long at = arena.allocateFrom(JAVA_BYTE, bytes).address();
            explained((c, error) -> reader.read(c, at, bytes.length, error));
        }
    }

    /**
     * Says that a {@link #snapshot} of this very bandit is stored: from now on, whatever happens, a restart finds it or
     * a later one. For a file that is so after force of the file, a rename, and force of the directory.
     *
     * <p>With expectedUsers the bandit learns only in periods that a stored snapshot counts: a restored bandit decides
     * nothing before, and after {@link #nextPeriod} it learns from nobody. Without expectedUsers nothing changes.
     *
     * @throws DpbException {@link Status#INVALID_CONFIG}: a snapshot of another bandit; {@link Status#CORRUPT}
     */
    public void stored(byte[] snapshot) {
        given(snapshot, Native::dpb_stored);
    }

    /**
     * Learns from what another bandit has released: from its {@link #snapshot}. Order and repetition do not matter. The
     * guarantee holds for the whole fleet, because each reward is in one batch of one bandit.
     *
     * @throws DpbException {@link Status#CORRUPT}; {@link Status#NEWER_VERSION}; {@link Status#INVALID_CONFIG}, which
     *     names the field that must not differ; {@link Status#UNSUPPORTED}: a policy that cannot merge
     */
    public void merge(byte[] snapshot) {
        given(snapshot, Native::dpb_merge);
    }

    /**
     * Ends the bandit, and returns its whole state, sealed by the {@link Config#fleetKey(byte[])}, for one other bandit
     * to {@link #resume} from: open batches, open decisions with the rewards that wait, counters of users. Every later
     * call is {@link Status#HALTED}.
     *
     * <p>One bandit at most may continue from a state. If two do, a reward that was open in it loses its epsilon twice.
     * When a bandit is suspended must not depend on rewards.
     *
     * @param receiver of {@link #receiver} in the process that resumes; or 0 for a state at rest, for example in a
     *     file: see {@link #claimed}
     * @throws DpbException {@link Status#UNSUPPORTED}: no fleetKey
     */
    public byte[] suspend(long receiver) {
        return written((c, buf, cap, len, error) -> Native.dpb_suspend(c, receiver, buf, cap, len, error));
    }

    /**
     * Ends the hold of a bandit that {@link #resume} made from a state at rest. Call it when it is certain that no
     * other bandit continues from that state, now or later. With a file: rename it to a name that no other process
     * uses, sync the directory, read it, resume, claim, delete it.
     */
    public void claimed() {
        call(Native::dpb_claimed);
    }

    /** Draws a number that one state may be addressed to, and be resumed in this process, while this bandit exists. */
    public long receiver() {
        return number(Native::dpb_receiver);
    }

    /** A call that writes a number, and says why it is refused. */
    private interface Numbered {
        int read(long c, long out, long error);
    }

    private long number(Numbered call) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(8, 8);
            explained((c, error) -> call.read(c, out.address(), error));
            return out.get(JAVA_LONG, 0);
        }
    }

    /**
     * Makes this bandit the leader of its fleet, which releases what the others contribute: one noise for all. Returns
     * its generation, which is public: the others pass it to {@link #contribution} and send the result here, for
     * {@link #combine}. A bandit that leads already keeps its generation.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: no fleetKey
     */
    public long lead() {
        return number(Native::dpb_lead);
    }

    /**
     * Ends contributing and leading: the bandit releases its own full batches again. Combine first what has arrived.
     * When you call it must not depend on rewards.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: no fleetKey
     */
    public void alone() {
        explained(Native::dpb_alone);
    }

    /**
     * Sets how many bandits share the work of a fleet with one noise, this one included. The number must not depend on
     * rewards.
     *
     * @param handles 0: it counts those whose snapshots it merged lately
     * @throws DpbException {@link Status#UNSUPPORTED}: no fleetKey
     */
    public void setHandles(int handles) {
        explained((c, error) -> Native.dpb_set_handles(c, Native.count("handles", handles), error));
    }

    /**
     * Takes the sums of all open batches out of this bandit for good, and returns them sealed, for the leader of this
     * generation; nothing, if there is nothing to contribute. From the first call on, this bandit releases nothing
     * itself, until it leads or is {@link #alone} again. Send the bytes to that leader only, in their order: what is
     * lost on the way is in no release.
     *
     * @throws DpbException {@link Status#INVALID_CONFIG}: a generation that is 0 or this bandit's own;
     *     {@link Status#UNSUPPORTED}: no fleetKey
     */
    public byte[] contribution(long generation) {
        return written((c, buf, cap, len, error) -> Native.dpb_contribution(c, generation, buf, cap, len, error));
    }

    /**
     * Adds a {@link #contribution} to the open batches of this bandit, which leads. It is added once, whatever is
     * repeated.
     *
     * @throws DpbException {@link Status#CORRUPT}; {@link Status#EXPIRED}: for another generation, drop it;
     *     {@link Status#DUPLICATE}: drop it; {@link Status#INVALID_CONFIG}; {@link Status#UNSUPPORTED}: no fleetKey
     */
    public void combine(byte[] contribution) {
        given(contribution, Native::dpb_combine);
    }

    /**
     * Seals a message for the bandits of the fleet. Whoever carries it sees its length, so give all messages one
     * length.
     *
     * @throws DpbException {@link Status#UNSUPPORTED}: no fleetKey
     */
    public byte[] seal(byte[] message) {
        try (Arena arena = Arena.ofConfined()) {
            long at = arena.allocateFrom(JAVA_BYTE, message).address();
            return written((c, buf, cap, len, error) ->
                    Native.dpb_seal(c, at, message.length, buf, cap, len, error));
        }
    }

    /**
     * Opens a message that {@link #seal} made with the same fleetKey.
     *
     * @throws DpbException {@link Status#CORRUPT}: other bytes; {@link Status#UNSUPPORTED}: no fleetKey
     */
    public byte[] open(byte[] sealed) {
        try (Arena arena = Arena.ofConfined()) {
            long at = arena.allocateFrom(JAVA_BYTE, sealed).address();
            return written((c, buf, cap, len, error) ->
                    Native.dpb_open(c, at, sealed.length, buf, cap, len, error));
        }
    }

    // The shuffle model, which is experimental.

    /**
     * Returns the parameters for the devices and shufflers of a phase's batches.
     *
     * @param phase of {@link Decision#phase}
     * @throws DpbException {@link Status#UNSUPPORTED}: not a policy of the shuffle model
     */
    public ShuffleParams shuffleParams(int phase) {
        try (Arena arena = Arena.ofConfined()) {
            return ShuffleParams.of(read(
                    arena,
                    Native.dpb_shuffle_params.SIZE,
                    (c, out) -> Native.dpb_shuffle_params_read(c, phase, out)));
        }
    }

    /**
     * Reports one arm's shuffled batch of the open phase.
     *
     * @throws DpbException {@link Status#EXPIRED}; {@link Status#NOT_READY}; {@link Status#DUPLICATE};
     *     {@link Status#INVALID_CONFIG}; {@link Status#UNSUPPORTED}
     */
    public void submitShuffled(int phase, int arm, byte[] bits) {
        try (Arena arena = Arena.ofConfined()) {
            long at = arena.allocateFrom(JAVA_BYTE, bits).address();
            call(c -> Native.dpb_submit_shuffled(c, phase, arm, at, bits.length));
        }
    }

    // Of the library.

    /** Returns the node that issued a ticket, 0 to 65535: see {@link Config#node(long)}. */
    public static int ticketNode(long ticket) {
        return Short.toUnsignedInt(Native.dpb_ticket_node(ticket));
    }

    /** Returns the version of the native library, such as "0.1.0". */
    public static String version() {
        return Native.text(Native.dpb_version());
    }

    /** Returns the version of the interface of the native library: major &lt;&lt; 16 | minor. */
    public static int abiVersion() {
        return Native.dpb_abi_version();
    }
}
