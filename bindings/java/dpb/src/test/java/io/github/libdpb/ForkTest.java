package io.github.libdpb;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import org.junit.jupiter.api.Test;

class ForkTest {
    private static final int SIGALRM = 14;

    private static MethodHandle function(String name, FunctionDescriptor of) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().find(name).orElseThrow(), of);
    }

    private static int outcome(Bandit bandit, Decision decision) {
        try {
            bandit.select(decision);
            return 0;
        } catch (DpbException refusal) {
            return 10 + refusal.status().ordinal();
        }
    }

    /**
     * In the child only this thread goes on, so it does nothing that was not done before. It may still wait for a
     * thread of the virtual machine that it does not have: an alarm ends it then, and the next child is asked.
     */
    @Test
    void aBanditDoesNotSurviveAFork() throws Throwable {
        MethodHandle fork = function("fork", FunctionDescriptor.of(JAVA_INT));
        MethodHandle exit = function("_exit", FunctionDescriptor.ofVoid(JAVA_INT));
        MethodHandle alarm = function("alarm", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
        MethodHandle wait = function("waitpid", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));
        try (Arena arena = Arena.ofConfined();
                Bandit bandit = new Bandit(new Config(2, 1.0))) {
            Bandit closed = new Bandit(new Config(2, 1.0));
            Decision decision = new Decision();
            closed.close();
            assertEquals(0, outcome(bandit, decision));
            assertEquals(10 + Status.CLOSED.ordinal(), outcome(closed, decision));
            MemorySegment status = arena.allocate(4, 4);
            int none = (int) alarm.invokeExact(0);
            do {
                int child = (int) fork.invokeExact();
                if (child == 0) {
                    none = (int) alarm.invokeExact(2);
                    exit.invokeExact(outcome(bandit, decision));
                }
                assertEquals(child, (int) wait.invokeExact(child, status, none));
            } while (status.get(JAVA_INT, 0) == SIGALRM);
            assertEquals(10 + Status.POISONED.ordinal() << 8, status.get(JAVA_INT, 0), "of the child");
            assertEquals(0, outcome(bandit, decision));
        }
    }
}
