#!/usr/bin/env python3
"""Plays Vowpal Wabbit (PyPI: vowpalwabbit) on the streams that `figures -- linear-stream --out DIR` writes.

    vw.py DIR

Each ad is an action with one feature. The option -q va gives each ad a weight for each level. The regret is computed from
the click rates, in % of the regret of uniform play, as in README.md. The first time is the processor time of VW's predict
and learn for each decision. The second time also includes writing and parsing the text.
"""
import csv
import math
import pathlib
import random
import sys
import time

import vowpalwabbit

EXPLORERS = ["--epsilon 0.05", "--squarecb", "--bag 5 --epsilon 0.01"]


def play(explorer, path, seed):
    vw = vowpalwabbit.Workspace(f"--cb_explore_adf {explorer} -q va --random_seed {seed} --quiet")
    coins, lost, uniform, inside, decisions = random.Random(seed), 0.0, 0.0, 0.0, 0
    start = time.process_time()
    for line in csv.reader(open(path)):
        levels, numbers = line[:3], [float(x) for x in line[3:]]
        needed, rates = numbers[0], numbers[1:]
        text = ["shared |v " + " ".join(f"l{level}" for level in levels)]
        text += [f"|a ad{arm}" for arm in range(len(rates))]
        example = vw.parse(text, vowpalwabbit.LabelType.CONTEXTUAL_BANDIT)
        begin = time.process_time()
        chances = vw.predict(example)
        inside += time.process_time() - begin
        vw.finish_example(example)
        arm = coins.choices(range(len(rates)), chances)[0]
        cost = -1.0 if needed < rates[arm] else 0.0
        text[1 + arm] = f"0:{cost}:{chances[arm]} " + text[1 + arm]
        example = vw.parse(text, vowpalwabbit.LabelType.CONTEXTUAL_BANDIT)
        begin = time.process_time()
        vw.learn(example)
        inside += time.process_time() - begin
        vw.finish_example(example)
        lost += max(rates) - rates[arm]
        uniform += max(rates) - sum(rates) / len(rates)
        decisions += 1
    whole = time.process_time() - start
    vw.finish()
    return 100 * lost / uniform, 1e6 * inside / decisions, 1e6 * whole / decisions


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("stream-*.csv"))
    print(f"Vowpal Wabbit {vowpalwabbit.__version__}, {len(paths)} worlds.\n")
    print("| cb_explore_adf | regret | us, predict and learn | us, with text |\n|---|---:|---:|---:|")
    for explorer in EXPLORERS:
        lost, inside, whole = zip(*(play(explorer, path, seed) for seed, path in enumerate(paths)))
        mean = sum(lost) / len(lost)
        error = math.sqrt(sum((x - mean) ** 2 for x in lost) / max(len(lost) - 1, 1) / len(lost))
        print(f"| {explorer} | {mean:.1f} ± {error:.1f} | {min(inside):.1f} | {min(whole):.1f} |", flush=True)


main()
