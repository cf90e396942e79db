package io.github.libdpb;

/** Prints the nanoseconds of a select and its update: the least of many rounds. */
final class Timing {
    private Timing() {}

    public static void main(String[] arguments) {
        try (Bandit bandit = new Bandit(new Config(10, 1.0))) {
            Decision decision = new Decision();
            double least = Double.MAX_VALUE;
            for (int round = 0; round < 200; round++) {
                long begun = System.nanoTime();
                for (int i = 0; i < 20_000; i++) {
                    bandit.select(decision);
                    bandit.update(decision.ticket(), i & 1);
                }
                least = Math.min(least, (System.nanoTime() - begun) / 20_000.0);
            }
            System.out.printf(java.util.Locale.ROOT, "%.1f%n", least);
        }
    }
}
