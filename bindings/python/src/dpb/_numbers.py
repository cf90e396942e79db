"""Numbers of dpb.h with names."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Clock(IntEnum):
    """What a tick of ``reward_window`` and ``forget_after`` is."""

    DECISIONS = 0
    """A tick is a decision."""
    CALLER = 1
    """A tick is a unit of the time that you pass to Bandit.advance."""


class Duty(IntEnum):
    """What a bandit does with the rewards that it collects."""

    ALONE = 0
    """It releases its own full batches."""
    CONTRIBUTES = 1
    """It contributes since its last Bandit.contribution, and releases nothing itself."""
    LEADS = 2
    """It releases full batches with what others contribute."""


class NodeState(IntEnum):
    """What a node of a fleet is doing."""

    TAKING = 0
    """It takes its number."""
    STORING = 1
    """It stores its first snapshot, and reads those of others."""
    SERVING = 2
    """It has joined."""
    RESIGNING = 3
    """It leaves, and collects what is on its way to it as the leader."""
    MOVING = 4
    """It leaves, and passes on its rewards and its state."""
    LEFT = 5
    """It has left."""
    REPLACED = 6
    """Another process has its number. The fleet learns nothing from this one, so end it."""
    FAILED = 7
    """It could not continue from the snapshot of its number; last_error says why."""


class TestState(IntEnum):
    """Whether a test of arms has ended, and with which claim."""

    __test__ = False  # pytest takes it for tests otherwise

    RUNNING = 0
    """It goes on."""
    WON = 1
    """The leader is the best arm, with probability 1 - beta."""
    TIED = 2
    """No arm is better than the leader by tolerance or more, with probability 1 - beta."""
    UNDECIDED = 3
    """planned_end rewards have come, and nothing is claimed."""


class Warnings(IntFlag):
    """Signs that a bandit cannot learn because of how it is called. docs/operating/monitoring.md says what to do."""

    CLOCK_STOPPED = 1
    """With Clock.CALLER: Bandit.advance has not been called for 1024 decisions, or has not moved the time for as many
    decisions as may be open, at least 1024."""
    EXPIRING = 2
    """Most of the last 1024 decisions expired."""
    UNLEARNED = 4
    """With expected_users: fewer than one in 100 of the last 1024 decisions are learned from."""
    UNMERGED = 8
    """The bandit contributes, and has merged no snapshot in its last 65,536 decisions."""
    ALL_SMALLEST = 16
    """Diagnostics only: all of the last 65,535 rewards that took effect are reward_min."""
    ALL_LARGEST = 32
    """Diagnostics only: all of the last 1024 rewards that took effect are reward_max, or all of 32 or more since the bandit
    was made, if at most one in four decisions has a reward."""
    UNRELEASED = 64
    """16,384 rewards or more took effect, and nothing was released: epsilon is too small for the traffic."""
