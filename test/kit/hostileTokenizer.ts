/** Tokenizers of untrusted model folders. */
import { orThrow } from '@tandem-rl/base'
import { type TextTokenizer, textTokenizer } from '@tandem-rl/text'

/** A tokenizer.json of three characters, with parts of a hostile file. */
export const hostileFile = (parts: object, model: object = {}): object => ({
  ...{ added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null },
  model: { type: 'BPE', vocab: { a: 0, b: 1, ' ': 2 }, merges: [], ...model },
  ...parts,
})

/** The tokenizer of such a file. */
export const hostile = (parts: object, model: object = {}): TextTokenizer =>
  orThrow(textTokenizer(hostileFile(parts, model)))

/**
 * A tokenizer that fails for texts of more than a few tokens: each token costs a million
 * characters.
 */
export const failingTokenizer = (): TextTokenizer => hostile({}, { continuing_subword_prefix: 'b'.repeat(1_000_000) })

/** A text that `failingTokenizer` cannot encode. */
export const UNENCODABLE = 'a '.repeat(2000)
