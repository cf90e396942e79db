package io.github.libdpb;

/** What a bandit does with the rewards that it collects. */
public enum Duty {
    /** It releases its own full batches. */
    ALONE(Native.DPB_DUTY_ALONE),
    /** It contributes since its last {@link Bandit#contribution}, and releases nothing itself. */
    CONTRIBUTES(Native.DPB_DUTY_CONTRIBUTES),
    /** It releases full batches with what others contribute. */
    LEADS(Native.DPB_DUTY_LEADS);

    private final int number;

    Duty(int number) {
        this.number = number;
    }

    static Duty of(int number) {
        for (Duty duty : values()) {
            if (duty.number == number) {
                return duty;
            }
        }
        throw new AssertionError(number);
    }
}
