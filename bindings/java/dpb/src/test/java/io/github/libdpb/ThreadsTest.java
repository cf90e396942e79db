package io.github.libdpb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class ThreadsTest {
    private static void all(ExecutorService threads, List<Callable<Void>> tasks) throws Exception {
        try (threads) {
            for (Future<Void> task : threads.invokeAll(tasks)) {
                task.get();
            }
        }
    }

    @Test
    void aHundredThreadsUseOneBandit() throws Exception {
        for (ExecutorService threads :
                List.of(Executors.newFixedThreadPool(100), Executors.newVirtualThreadPerTaskExecutor())) {
            try (Bandit bandit = new Bandit(new Config(10, 1.0).pendingCapacity(1 << 18))) {
                List<Callable<Void>> tasks = new ArrayList<>();
                for (int i = 0; i < 100; i++) {
                    int own = i;
                    tasks.add(() -> {
                        Decision decision = new Decision();
                        Request request = new Request().eligible(new int[] {own % 10, (own + 1) % 10});
                        for (int n = 0; n < 1000; n++) {
                            bandit.select(request, decision);
                            assertTrue((decision.arm() - own % 10 + 10) % 10 <= 1, "the arm of another thread");
                            bandit.update(decision.ticket(), n % 2);
                        }
                        return null;
                    });
                }
                all(threads, tasks);
                assertEquals(100_000, bandit.report().answered());
            }
        }
    }

    @Test
    void aBanditIsClosedWhileThreadsUseIt() throws Exception {
        for (int round = 0; round < 10; round++) {
            Bandit bandit = new Bandit(new Config(10, 1.0).pendingCapacity(1 << 20));
            AtomicInteger begun = new AtomicInteger();
            List<Callable<Void>> tasks = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                int kind = i;
                tasks.add(() -> {
                    Decision decision = new Decision();
                    Status refused = Status.OK;
                    // A thread that waits for a processor may miss a million decisions of others.
                    for (int n = 0; refused == Status.OK || refused == Status.EXPIRED; n++) {
                        if (n == 10) {
                            begun.incrementAndGet();
                        }
                        try {
                            switch (kind) {
                                case 0 -> bandit.snapshot();
                                case 1 -> bandit.arms();
                                default -> bandit.update(bandit.select(decision).ticket(), 1);
                            }
                        } catch (DpbException refusal) {
                            refused = refusal.status();
                        }
                    }
                    assertEquals(Status.CLOSED, refused);
                    return null;
                });
            }
            for (int i = 0; i < 2; i++) {
                tasks.add(() -> {
                    while (begun.get() < 8) {
                        Thread.onSpinWait();
                        Thread.yield();
                    }
                    bandit.close();
                    return null;
                });
            }
            all(Executors.newFixedThreadPool(10), tasks);
        }
    }

    /** A request that another thread changes gives some decision or an exception. */
    @Test
    void aRequestThatChangesCrashesNothing() throws Exception {
        try (Bandit bandit = new Bandit(new Config(8, 1.0))) {
            Request request = new Request();
            List<Callable<Void>> tasks = new ArrayList<>();
            tasks.add(() -> {
                for (int n = 0; n < 100_000; n++) {
                    request.eligible(n % 3 == 0 ? null : new int[n % 7]);
                    request.values(n % 2 == 0 ? null : new double[n % 1000]);
                    request.slots(n % 9);
                }
                return null;
            });
            tasks.add(() -> {
                Decision decision = new Decision();
                for (int n = 0; n < 100_000; n++) {
                    try {
                        bandit.select(request, decision);
                    } catch (DpbException | IndexOutOfBoundsException refused) {
                        assertTrue(refused.getMessage() != null);
                    }
                }
                return null;
            });
            all(Executors.newFixedThreadPool(2), tasks);
        }
    }
}
