"""Records prompts and judgements of TextArena 0.7.4, for test/golden/textArena.json.

    pip install textarena==0.7.4
    python test/golden/generate/textArena.py > test/golden/textArena.json

TextArena is under the MIT license (LICENSES/MIT-TextArena.txt). The word list of its Wordle needs a
download of NLTK, so that game is made without its constructor, with a list of our own.
"""
import json
import random

import textarena as ta
from textarena.envs.Wordle.env import WordleEnv
from textarena.wrappers import ActionFormattingWrapper, GameMessagesObservationWrapper, LLMObservationWrapper

WORDS = ["apple", "plate", "grape", "pearl"]


class Dictionary:
    def is_english_word(self, word):
        return word in WORDS


def wordle(is_train):
    env = WordleEnv.__new__(WordleEnv)
    env.word_length, env.num_guesses, env.word_list, env.dictionary = 5, 6, WORDS, Dictionary()
    return ActionFormattingWrapper((GameMessagesObservationWrapper if is_train else LLMObservationWrapper)(env))


def make(name, is_train):
    if name == "Wordle-v0":
        return wordle(is_train)
    family, options = ("KuhnPoker-v0", {"max_rounds": 1}) if name == "KuhnPoker" else (name, {})
    return ta.make(family + ("-train" if is_train else ""), **options)


def legal(name, state):
    game = state.game_state
    if name.startswith("TicTacToe"):
        return [f"[{r * 3 + c}]" for r in range(3) for c in range(3) if game["board"][r][c] == ""]
    if name.startswith("ConnectFour"):
        return [f"[col {c}]" for c in range(len(game["board"][0])) if game["board"][0][c] == "."]
    if name.startswith("Nim"):
        return [f"[{pile} {take}]" for pile, size in enumerate(game["piles"]) for take in range(1, size + 1)]
    if name.startswith("Pig"):
        return ["[roll]", "[hold]"]
    if name == "Wordle-v0":
        guessed = [guess for guess, _ in game["guess_history"]]
        others = [word for word in WORDS if word not in guessed and word != game["secret_word"]]
        return [f"[{word}]" for word in others or [game["secret_word"]]]
    return [f"[{move}]" for move in game["current_legal_action_tree"]]


def chance(name, state):
    game = state.game_state
    if name == "KuhnPoker":
        return [game["player_cards"][1], game["player_cards"][0]]  # player 1 begins
    return [WORDS.index(game["secret_word"])] if name == "Wordle-v0" else []


def play(name, is_train, seed, most):
    """Plays random moves. The prompts of the first two moves and of the last one are kept."""
    draw = random.Random(seed)
    env = make(name, is_train)
    env.reset(num_players=1 if name == "Wordle-v0" else 2, seed=seed)
    record = {"id": name + ("-train" if is_train else ""), "chance": chance(name, env.state), "moves": []}
    for at in range(most):
        player, prompt = env.get_observation()
        reply = draw.choice(legal(name, env.state))
        move = {"player": player, "reply": reply, "prompt": prompt}
        done, _ = env.step(action=reply)
        if name.startswith("Pig") and reply == "[roll]":
            move["roll"] = env.roll_value
        record["moves"].append(move)
        if done:
            break
    for move in record["moves"][2:-1]:
        del move["prompt"]
    return record


REPLIES = {
    "TicTacToe-v0": (["[4]"], ["[4]", "[5]", "I take [ 2 ].", "[5] or [6]", "[9]", "[x4]", "center", "3", "[x] [3]"]),
    "ConnectFour-v0": (["[col 3]"], ["[col 3]", "[3]", "[col3]", "[COL 0]", "[col 1] or [col 2]", "[col 7]", "[ 3 ]", "3", "col 3"]),
    "Nim-v0": (["[0 3]"], ["[1 2]", "[ 2  5 ]", "[0 1]", "[1 0]", "[3 1]", "[1, 2]", "1 2", "[1 1] [2 2]"]),
    "KuhnPoker": (["[bet]"], ["[Call]", "[fold]", "I [FOLD]!", "[check]", "[ call ]", "call", "[call] [fold]"]),
    "PigDice-v0": (["[hold]"], ["[roll]", "[HOLD]", "roll", "[stop]", "[ roll ]"]),
    "Wordle-v0": (["[apple]"], ["[plate]", "grape", "[PEARL]", "[apple]", "[pears]", "[pear]", "I guess plate.", "[a b]"]),
}


def judge(name):
    """Returns what follows each reply: the description of a move, or the reason of a refusal."""
    before, replies = REPLIES[name]
    judged = []
    for reply in replies:
        env = make(name, False)
        env.reset(num_players=1 if name == "Wordle-v0" else 2, seed=1)
        given = chance(name, env.state)
        for each in before:
            env.get_observation()
            env.step(action=each)
        moves = len(env.state.logs)
        env.step(action=reply)
        told = [text for text in (message for _, message in env.state.logs[moves + 1 :])]
        refusal = next((text for text in told if "attempted an invalid move" in text), None)
        judged.append({"reply": reply, "refusal": refusal, "told": None if refusal or not told else told[0]})
    return {"id": name, "chance": given, "before": before, "judged": judged}


NAMES = ["TicTacToe-v0", "ConnectFour-v0", "Nim-v0-medium", "KuhnPoker", "PigDice-v0-short", "Wordle-v0"]
games = [play(name, is_train, seed, 12) for name in NAMES for is_train in (False, True) for seed in (1, 3)]
print(json.dumps({"version": "0.7.4", "words": WORDS, "games": games, "replies": [judge(name) for name in REPLIES]}, indent=1))
