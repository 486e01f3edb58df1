/** Splits text into words and signs as NLTK does. IFEval counts capitalized words this way. */
import { SPACE, splitSpaces, WORD } from './pythonText.js'

const BEFORE_WORD = `(?<![${WORD}])`
const AFTER_WORD = `(?![${WORD}])`

/** Patterns of tokens that are separated, in order. */
const RULES: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  // Opening quotes
  [/[«“‘„]|`+/g, ' $& '],
  [/^"/, '``'],
  [/``/g, ' $& '],
  [/([ ([{<])(?:"|'')/g, '$1 `` '],
  [new RegExp(`'(?!re|ve|ll|m|t|s|d|n)([${WORD}])${AFTER_WORD}`, 'giu'), "' $1"],
  // The period at the end, with the quotes after it; what the lookahead has taken is not tried in
  // parts
  [new RegExp(`([^.])\\.(?=([\\])}>"'»”’ ]*))\\2[${SPACE}]*$`, 'u'), '$1 . $2 '],
  [/([:,])(\P{Nd})/gu, ' $1 $2'],
  [/[:,]$/, ' $& '],
  [/\.{2,}/g, ' $& '],
  [/[;@#$%&]/g, ' $& '],
  [new RegExp(`([^.])\\.([\\])}>"']*)[${SPACE}]*$`, 'u'), '$1 .$2 '],
  [/[?!]/g, ' $& '],
  [/([^'])' /g, "$1 ' "],
  [/[*]/g, ' $& '],
  [/[\][(){}<>]/g, ' $& '],
  [/--/g, ' -- '],
  [/^|$/g, ' '],
  // Closing quotes and what hangs on a word
  [/[»”’]/g, ' $& '],
  [/''/g, " '' "],
  [/"/g, " '' "],
  [new RegExp(`[${SPACE}]+`, 'g'), ' '],
  [/([^' ])('[sS]|'[mM]|'[dD]|') /g, '$1 $2 '],
  [/([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) /g, '$1 $2 '],
  // Two words written as one
  ...['can not', "d 'ye", 'gim me', 'gon na', 'got ta', 'lem me', "more 'n"].map((words) => {
    const [first, second] = words.split(' ')
    return [new RegExp(`${BEFORE_WORD}(${first})(${second})${AFTER_WORD}`, 'giu'), ' $1 $2 '] as const
  }),
  [new RegExp(`${BEFORE_WORD}(wan)(na)(?=[${SPACE}])`, 'giu'), ' $1 $2 '],
  [new RegExp(` ('t)(is|was)${AFTER_WORD}`, 'giu'), ' $1 $2 '],
]

/**
 * Returns the words and signs of an English sentence.
 *
 * Cost     linear in the text.
 * Source   NLTK 3.9.1 `NLTKWordTokenizer`: the rules of the Penn Treebank. `word_tokenize` applies
 *          it to each of Punkt's sentences.
 *
 * @example
 * wordTokens("I can't go.") // ['I', 'ca', "n't", 'go', '.']
 */
export const wordTokens = (sentence: string): readonly string[] =>
  splitSpaces(RULES.reduce((cut, [pattern, replacement]) => cut.replace(pattern, replacement), sentence))
