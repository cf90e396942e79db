package io.github.libdpb;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;

class AllocationTest {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static void allocatesNothing(String what, Runnable call) {
        long allocated = 1;
        // The compilers do their work in the first rounds. A collector may refill this thread's buffer in one of them.
        for (int round = 0; round < 300 && allocated != 0; round++) {
            long before = THREADS.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < 20_000; i++) {
                call.run();
            }
            allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
        }
        assertEquals(0, allocated, what);
    }

    @Test
    void decisionsAndRewardsAllocateNothing() {
        try (Bandit bandit = new Bandit(new Config(10, 1.0).rewardWindow(1000))) {
            Decision decision = new Decision();
            allocatesNothing("select and update", () -> {
                bandit.select(decision);
                bandit.update(decision.ticket(), 1);
            });
            Request request = new Request().eligible(new int[] {1, 2, 3}).values(new double[] {1, 2, 3});
            allocatesNothing("a request", () -> {
                bandit.select(request, decision);
                bandit.update(decision.ticket(), 0);
            });
            Decision[] two = {new Decision(), new Decision()};
            Request slots = new Request().slots(2);
            allocatesNothing("slots", () -> bandit.selectSlots(slots, two));
            Request[] requests = {request, slots};
            Decision[] three = {new Decision(), new Decision(), new Decision()};
            long[] tickets = new long[3];
            double[] rewards = new double[3];
            Status[] each = new Status[3];
            allocatesNothing("batches", () -> {
                bandit.selectMany(requests, three);
                for (int i = 0; i < 3; i++) {
                    tickets[i] = three[i].ticket();
                }
                bandit.updateMany(tickets, rewards, each);
            });
        }
        try (Bandit bandit = new Bandit(new Config(3, 1.0).features(8).modelPerArm(true))) {
            Decision decision = new Decision();
            Request dense = new Request().features(new float[8]);
            allocatesNothing("features", () -> {
                bandit.select(dense, decision);
                bandit.update(decision.ticket(), 0);
            });
            Request sparse = new Request().sparse(new int[] {1, 5}, new float[] {1, 1}, 2);
            allocatesNothing("sparse features", () -> {
                bandit.select(sparse, decision);
                bandit.update(decision.ticket(), 1);
            });
        }
    }
}
