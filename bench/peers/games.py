"""Random against random in OpenSpiel: plays games from a seed and prints the seconds of each round as JSON.

The first argument is the clock: wall or processor.
"""
import json
import random
import sys
import time

import pyspiel


def play(game, rng):
    state = game.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            actions, probabilities = zip(*state.chance_outcomes())
            state.apply_action(rng.choices(actions, probabilities)[0])
        elif state.is_simultaneous_node():
            state.apply_actions([rng.choice(state.legal_actions(p)) for p in range(game.num_players())])
        else:
            state.apply_action(rng.choice(state.legal_actions()))
    return state.returns()


def main():
    clock = time.process_time if sys.argv[1] == "processor" else time.perf_counter
    for line in sys.stdin:
        name, count = line.split()
        game = pyspiel.load_game(name)
        rng = random.Random(1)
        started = clock()
        for _ in range(int(count)):
            play(game, rng)
        print(json.dumps(clock() - started), flush=True)


main()
