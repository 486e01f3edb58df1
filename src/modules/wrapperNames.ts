/** Checks of wrapper options, with hints for TorchRL options that have another form here. */
import { checkOptions } from '@tandem-rl/base'

const KEYS =
  'the keys of entries are part of the types and cannot be changed: rename the entry instead, or write the entries of several policies under their names with sideBySide'

/** The replacement of each TorchRL option, by its name in lower case without underscores. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  [
    'inputmode',
    'a wrapper reads token ids. For conversations use historyPolicy({ policy, tokenizer, template }); for text, put Tokenizer around the environment',
  ],
  [
    'numsamples',
    'one row has one completion. Set repeats of the environment, or repeat rows with repeatInterleave: neighbors with equal prompts share their computation',
  ],
  ['returnlogprobs', 'every action has the log-probabilities of its tokens'],
  ['prefertokens', 'ids of earlier turns are always kept, and never made from text again'],
  ['padoutput', 'rows are ragged: toPadded pads them'],
  ['inplace', 'TensorDicts are immutable: an action is a new one'],
  ...['inputkey', 'textkey', 'tokenskey', 'maskskey', 'historykey', 'logprobskey', 'attentionkey'].map(
    (name) => [name, KEYS] as const,
  ),
])

/**
 * Checks the options of a wrapper. TorchRL's options that have another form here are refused with
 * that form, in camel case or snake case.
 *
 * Errors   throws RangeError for an unknown option, and as `checkOptions` for a wrong value.
 */
export const checkWrapper = <O extends object>(wrapper: string, options: O, table: string): void => {
  for (const name of Object.keys(options)) {
    const place = ELSEWHERE.get(name.replaceAll('_', '').toLowerCase())
    if (place !== undefined) throw new RangeError(`${wrapper}: unknown option '${name}': ${place}`)
  }
  checkOptions(wrapper, options, table)
}
